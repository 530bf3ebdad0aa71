"""A sweep over many devices and machines: Ray places device workers, this package says what they measure and keeps it.

fleet             the loop, against the interface of `cluster`
cluster           what it needs of whoever runs device workers, and their numbered slots
jobs              one problem with all its providers: never divided among devices
chunks            the parts of a comparison
job_scheduler     which free device gets which job
arch_queue        the jobs of one architecture
forecast          how long the rest takes
protocol          what fleet and device workers send each other
device_worker     sessions on one device, wherever it is
compare_worker    rounds of a comparison on one device
device_registry   devices, software and processes of a run
result_archive    one run folder, packed to be sent
result_store      archives to shards and to one run folder
compare_store     the same for a comparison: a chunk is stored in all versions or in none
inventory         what this machine offers
resource_request  devices asked for against devices there
ray_cluster       the cluster on Ray
ray_worker        a device worker as an actor of Ray
ray_environment   what Ray reads when it is imported, clusters that this machine belongs to, and where its logs go
"""
