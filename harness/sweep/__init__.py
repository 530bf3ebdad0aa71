"""The parent process: drives workers, and survives their faults.

sweep              measures the planned cells on one device, or searches their configurations
device_sweep       measures them on several devices
devices            a thread per device, which takes one part after the other; what is lost is measured by another
part_queue         which device gets which part
cluster            the devices of this machine, and what one of other machines must offer
session            hands tasks to a worker and stores what comes back
child_process      a child process, on this Python or on that of a version
supervisor         starts a worker, talks to it, says how it ended
in_child           runs what a user's file does in a process of its own
believed           which messages of a worker can be true
fault_attribution  which provider made a worker crash or hang, and how long each wait may take
time_budget        divides the time of --within
deadline           when measuring ends
pinned_defaults    configurations for the variants of a scan
events             what a loop tells whoever watches it
"""
