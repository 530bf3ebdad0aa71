"""Products by the libraries of vendors, and what loads these.

dense             base of the references and baselines that multiply decoded operands
blas_forms        ways to ask torch for such a product
rocm_blas         through rocBLAS or hipBLASLt, and which of them ran
cublaslt          by the best algorithm that cuBLASLt lists
nvrtc             CUDA C++ compiled at run time, and launched
shared_libraries  where CUDA's libraries are found
"""
