#!/bin/bash
# A Slurm cluster of one node on this machine, for the tests: cluster.sh start FOLDER CORES, cluster.sh stop FOLDER.
# It needs root, slurm-wlm and munge. Everything is bound to 127.0.0.1 and lives in FOLDER.
set -eu
folder=${2:?name a folder}
conf=$folder/slurm.conf

alive() { [ -f "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

case ${1:-} in
start)
  cores=${3:-2}
  mkdir -p "$folder"/{state,spool,log,munge}
  [ -f "$folder/munge/key" ] || head -c 1024 /dev/urandom >"$folder/munge/key"
  chown -R munge "$folder/munge"; chmod 700 "$folder/munge"; chmod 400 "$folder/munge/key"
  chmod a+rx "$folder"
  mkdir -p "$folder/socket"; chown munge "$folder/socket"; chmod 755 "$folder/socket"
  su -s /bin/bash munge -c "/usr/sbin/munged --key-file=$folder/munge/key --socket=$folder/socket/munge \
    --pid-file=$folder/munge/pid --log-file=$folder/munge/log --seed-file=$folder/munge/seed --num-threads=2"
  cat >"$conf" <<END
ClusterName=walkback
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldParameters=enable_configless
SlurmctldPort=${SLURM_TEST_PORT:-16817}
SlurmdPort=$((${SLURM_TEST_PORT:-16817} + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/socket/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld
SlurmdLogFile=$folder/log/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=10
OverTimeLimit=0
MinJobAge=300
SchedulerParameters=sched_interval=2,batch_sched_delay=0
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$cores RealMemory=2000 State=UNKNOWN
PartitionName=test Nodes=$(hostname -s) Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
END
  export SLURM_CONF=$conf
  slurmctld -f "$conf" -c
  slurmd -f "$conf" -c
  for _ in $(seq 60); do
    if sinfo -h -o %T 2>/dev/null | grep -q idle; then exit 0; fi
    sleep 1
  done
  echo "the Slurm cluster did not start; its logs:" >&2
  tail -n 20 "$folder"/log/* >&2
  exit 1
  ;;
stop)
  export SLURM_CONF=$conf
  scancel --user root 2>/dev/null || true
  for file in "$folder"/slurmd.pid "$folder"/slurmctld.pid "$folder"/munge/pid; do
    if alive "$file"; then
      pid=$(cat "$file")
      kill "$pid"
      for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    fi
  done
  ;;
*)
  echo "usage: cluster.sh start FOLDER CORES | stop FOLDER" >&2
  exit 2
  ;;
esac
