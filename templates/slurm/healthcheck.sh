#!/bin/sh
# Slurm's HealthCheckProgram: drains a node on which hostdoctor finds something critical, and resumes it when that is
# gone. In slurm.conf:
#   HealthCheckProgram=/etc/slurm/hostdoctor-healthcheck.sh
#   HealthCheckInterval=300
# slurmd runs it as root on each node and ends it after 60 s. A host that cannot be judged (unknown) stays as it is, as
# does a node that is down or that somebody else has drained.
set -u
PATH=${HOSTDOCTOR_PATH:-/usr/local/bin:/usr/bin:/bin}
node=${SLURMD_NODENAME:-$(uname -n)}
node=${node%%.*}

line=$(hostdoctor check --quick --exit-style gate --fail-on critical --format nagios)
status=$?
line=${line%%|*}
line=${line% }
case $line in HOSTDOCTOR*) ;; *) status=70 ;; esac # a Python that cannot start ends with 1, too

if [ "$status" -gt 1 ]; then
  logger -t hostdoctor -p daemon.warning "the health check could not be made (status $status)"
  exit 0
fi

case "$status $(scontrol show node --oneliner "$node")" in
  *" State=DOWN"*) ;;
  "0 "*" State="*"+DRAIN"*" Reason=hostdoctor: "*) scontrol update "NodeName=$node" State=RESUME ;;
  *" State="*"+DRAIN"*) ;;
  "1 "*) scontrol update "NodeName=$node" State=DRAIN "Reason=hostdoctor: $line" ;;
esac
exit 0
