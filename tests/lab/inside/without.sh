# Without the library the program starts, does what it can, and says in one line what it cannot.
. /lab/inside/common.sh
mv /lib/libibverbs.so.1 /lib/away
run ./ringleader demo --ring 1M --entries 1000 --samples 0
run ./ringleader --version
./ringleader demo --fabric verbs --ring 1M 2>&1 | tee /tmp/said
grep -q "libibverbs is not installed" /tmp/said || { echo "lab: FAILED: says nothing"; failed=1; }
mv /lib/away /lib/libibverbs.so.1
exit $failed
