# shells: bash dash
# args:
tool first &
wait
helper second &
wait $!
exec server
