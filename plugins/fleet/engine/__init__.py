"""A sweep over many devices: what device workers measure in threads here, or as actors of Ray, and how it is kept.

fleet             the loop
cluster           what a cluster reports, and its numbered slots
jobs              what one device measures in one piece: a problem, or a chunk of a comparison
job_scheduler     which free device gets which job
job_queue         what is measured, and where it is stored
protocol          what fleet and device workers exchange, and the base of all workers
device_worker     measures problems on one device
compare_worker    measures rounds of a comparison on one device
device_registry   devices, software and processes of a run
result_archive    one run folder, packed to be sent
result_store      archives to shards and to one run folder
compare_store     the same for a comparison: a chunk is stored in all versions or in none
inventory         the devices of this machine
resource_request  devices requested against devices offered
local_cluster     the devices of this machine, a thread each
ray_cluster       the cluster on Ray
ray_worker        a device worker as an actor of Ray
ray_environment   what Ray reads when it is imported, the clusters of this machine, Ray's logs
"""
