"""Products by the libraries of vendors, and what loads these.

dense             base of the references and baselines that multiply decoded operands
blas_forms        ways to ask torch for such a product
rocm_blas         through rocBLAS or hipBLASLt
blas_lt           by the best algorithm that cuBLASLt or hipBLASLt lists
lt_library        both of these, and what differs between them
library_names     which library multiplies
nvrtc             CUDA C++ compiled at run time, and launched
shared_libraries  where they are found
"""
