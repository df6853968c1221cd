# shells: bash dash
# args:
(cd sub && A=inner && export A && tool inside)
tool outside
( exit 3 ) || helper failed
{ B=group; export B; }
server
