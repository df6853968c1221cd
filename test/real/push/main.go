//go:build ignore

// Command push is run and built by the name of this file: `go run ./test/real/push/main.go`.
// So `go install ./...`, which is pre-commit's, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/real/push"

func main() { push.Main() }
