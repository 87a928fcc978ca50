# Rounds of chaos on verbs: processes killed, stopped and started anew, members and leaders changed, what was told judged.
. /lab/inside/common.sh
rounds=2
[ ! -e rounds ] || read -r rounds < rounds
run ./chaos --fabric verbs --rounds "$rounds" --keep /tmp
[ "$failed" = 0 ] || for log in /tmp/ringleader-chaos-*/*.log; do echo "-- $log"; tail -n 12 "$log"; done
exit $failed
