# shells: bash dash
# args:
LIST="a:b c:d"
IFS=:
for x in $LIST; do tool "$x"; done
unset IFS
exec server $LIST
