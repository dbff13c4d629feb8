#!/bin/sh
# Slurm's Prolog: refuses to start a job on GPUs on which hostdoctor finds something critical. In slurm.conf:
#   Prolog=/etc/slurm/hostdoctor-prolog.sh
#   PrologFlags=Alloc
# A status other than 0 makes Slurm drain the node and requeue the job. It looks at the job's own GPUs alone, which
# Slurm numbers as nvidia-smi does where gres.conf says AutoDetect=nvml. A job without GPUs, a host that cannot be judged
# and a hostdoctor that does not run all let the job start.
set -u
PATH=${HOSTDOCTOR_PATH:-/usr/local/bin:/usr/bin:/bin}
gpus=${SLURM_JOB_GPUS:-}
[ -n "$gpus" ] || exit 0

line=$(hostdoctor check --quick --exit-style gate --fail-on critical --format nagios --gpus "$gpus")
status=$?
case $line in HOSTDOCTOR*) ;; *) status=70 ;; esac # a Python that cannot start ends with 1, too
case $status in
  0) exit 0 ;;
  1)
    logger -t hostdoctor -p daemon.err "job ${SLURM_JOB_ID:-?} not started on GPUs $gpus: ${line%%|*}"
    exit 1
    ;;
  *)
    logger -t hostdoctor -p daemon.warning "GPUs $gpus of job ${SLURM_JOB_ID:-?} could not be judged (status $status)"
    exit 0
    ;;
esac
