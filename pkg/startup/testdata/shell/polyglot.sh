# shells: bash dash
# args: x
'''exec' "server" "$0" "$@"
' '''
import sys
if True: print((((
