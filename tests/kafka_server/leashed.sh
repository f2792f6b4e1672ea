# Runs a command that dies with whoever holds the other end of standard input.
exec 3<&0
trap : TERM
"$@" </dev/null 3<&- &
command=$!
(cat <&3 >/dev/null; kill -9 $command) 2>/dev/null &
leash=$!
exec 3<&-
wait $command || wait $command
status=$?
kill $leash 2>/dev/null
exit $status
