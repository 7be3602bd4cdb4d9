# Sourced: lets Open MPI start more ranks than cores, and as root, on this machine.
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none # else 1 or 2 ranks get a core each and leave the others idle
export HWLOC_HIDE_ERRORS=2 # in containers without /sys, once a process
export PMIX_MCA_plog=^default # else mpirun may crash when a rank aborts the job: it passes on the help text in one thread while another frees it
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
