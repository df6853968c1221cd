# shells: bash dash
# args:
tool one | cat
A=$(echo text | cat) server 2>&1 | cat
