#!/usr/bin/env bash
# A real Slurm on this machine alone, with two pretended GPUs: no containers, no system services.
#
#   tests/slurm/single_node.sh start FOLDER     configuration, logs and state in FOLDER; needs root
#   tests/slurm/single_node.sh stop FOLDER
#
# Needs the packages slurm-wlm and munge (apt-get install -y slurm-wlm munge). Then: export SLURM_CONF=FOLDER/slurm.conf
set -euo pipefail

action=$1
folder=$(realpath -m "$2")
host=$(hostname -s)

stop() {
    for name in slurmd slurmctld; do
        [ -f "$folder/$name.pid" ] && kill "$(cat "$folder/$name.pid")" 2>/dev/null || true
    done
    # munged only if it was started here
    [ -f "$folder/munged.ours" ] && kill "$(cat /run/munge/munged.pid)" 2>/dev/null || true
    rm -f "$folder/munged.ours"
}

start() {
    mkdir -p "$folder"/{state,spool,log}
    for number in 0 1; do
        [ -e "$folder/gpu$number" ] || mknod -m 666 "$folder/gpu$number" c 1 3 # /dev/null by another name
    done
    cat >"$folder/slurm.conf" <<CONF
ClusterName=onebox
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=5,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=30
GresTypes=gpu
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=20000 Gres=gpu:2 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
    cat >"$folder/gres.conf" <<CONF
NodeName=$host Name=gpu File=$folder/gpu[0-1]
CONF
    cat >"$folder/cgroup.conf" <<CONF
CgroupPlugin=cgroup/v1
CgroupAutomount=no
ConstrainCores=no
CONF
    export SLURM_CONF=$folder/slurm.conf
    if ! munge -n </dev/null >/dev/null 2>&1; then
        mkdir -p /run/munge && chown munge: /run/munge
        runuser -u munge -- munged
        touch "$folder/munged.ours"
    fi
    slurmctld -c
    slurmd -c
    for _ in $(seq 60); do
        if sinfo --noheader --format=%t 2>/dev/null | grep -q '^idle'; then
            return
        fi
        sleep 0.5
    done
    echo "Slurm did not come up; see $folder/log" >&2
    tail -n 5 "$folder"/log/*.log >&2 || true
    stop
    exit 1
}

"$action"
