//go:build ignore

// Command push is run by the name of this file, `go run ./test/real/push/main.go`, so that
// `go install ./...`, as pre-commit runs it, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/real/push"

func main() { push.Main() }
