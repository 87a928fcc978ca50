# What a commit takes beside bare WRITEs: few, for a clock that counts instructions.
. /lab/inside/common.sh
run ./ringleader bench commit --fabric verbs --samples 1000
exit $failed
