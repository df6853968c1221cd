# shells: bash dash
# args:
echo "value" >out.tmp
printf '%s\n' more >>out.tmp
A=$(cat out.tmp)
export A
tool x >/dev/null 2>&1
B=$(cat <out.tmp) server
