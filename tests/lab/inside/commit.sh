# A commit beside bare WRITEs, by a clock that counts instructions: the figures repeat, so a bound on their ratio is no bound on time.
. /lab/inside/common.sh
run ./ringleader bench commit --fabric verbs --samples 1000 > /tmp/said
cat /tmp/said
ratio=$(sed -n 's/^a commit takes 0*\([0-9]*\)\.\([0-9]\{3\}\) times its floor.*/\1\2/p' /tmp/said)
[ "${ratio:-9999}" -le 1100 ] || { echo "lab: FAILED: a commit takes more than 1.10 times its floor"; failed=1; }
exit $failed
