# shells: bash dash
# args:
set -e
false || tool after
if false; then tool never; fi
! true
[ -f nothing ] && tool never
helper reached
test -d nothing
server never
