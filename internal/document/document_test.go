package document

import (
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// flat writes the scalars of a tree, one a line, with path, line and value.
func flat(b *strings.Builder, at string, n *yaml.Node) {
	switch n.Kind {
	case yaml.DocumentNode, yaml.SequenceNode:
		for _, c := range n.Content {
			flat(b, at, c)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			flat(b, at+"/"+n.Content[i].Value, n.Content[i+1])
		}
	case yaml.ScalarNode:
		fmt.Fprintf(b, "%s:%d %s\n", at, n.Line, n.Value)
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"a.json", "{\n\t\"a\": [\"b\", // c\n\"d\",],\n}", "/a:2 b\n/a:3 d\n"},
		{"fly.toml", "app = 'x'\n[build]\nimage = \"a:1\"\n[[runners]]\nn = 3\n", "/app:1 x\n/build/image:3 a:1\n/runners/n:1 3\n"},
		{"docker-bake.hcl", `variable "TAG" { default = "24.04" }
variable "NONE" {}
target "app" {
  contexts = {
    base = "docker-image://nvcr.io/x:${TAG}"
    "other" = TAG
  }
  tags = ["a:${NONE}", upper(TAG)]
}
target "b" { inherits = ["app"] }
`, "/variable/TAG/default:1 24.04\n/target/app/contexts/base:5 docker-image://nvcr.io/x:24.04\n/target/app/contexts/other:6 24.04\n/target/app/tags:8 ${\"a:${NONE}\"}\n/target/app/tags:8 ${upper(TAG)}\n/target/b/inherits:10 app\n"},
		{"main.tf", `variable "v" { default = "1" }
locals { image = "a:${var.v}" }
resource "aws_ecs_task_definition" "t" {
  container_definitions = jsonencode([{ name = "x", image = local.image, port = 80 }])
  other = var.none
}
`, "/variable/v/default:1 1\n/locals/image:2 a:1\n/resource/aws_ecs_task_definition/t/container_definitions/name:4 x\n/resource/aws_ecs_task_definition/t/container_definitions/image:4 a:1\n/resource/aws_ecs_task_definition/t/container_definitions/port:4 80\n/resource/aws_ecs_task_definition/t/other:5 ${var.none}\n"},
	} {
		n, err := Read(c.file, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		var b strings.Builder
		flat(&b, "", n)
		if b.String() != c.want {
			t.Errorf("%s:\n%swant\n%s", c.file, b.String(), c.want)
		}
	}
	if n, err := Read("a.yaml", []byte("a: b")); n != nil || err != nil {
		t.Errorf("a.yaml: %v, %v", n, err)
	}
	for file, c := range map[string]struct{ text, want string }{
		"a.json":  {"{", "it is no JSON"},
		"a.toml":  {"a = \n", "line 1: it is no TOML"},
		"a.hcl":   {"a = [\n", "it is no HCL"},
		"b.json":  {strings.Repeat("[", 200), "nest too deeply"},
		"b.hcl":   {"a = " + strings.Repeat("(", 200), "nest too deeply"},
		"big.tf":  {strings.Repeat("#", maxHCL+1), "larger than 128 KiB"},
		"c.toml":  {"a = " + strings.Repeat("[", 200), "nest too deeply"},
		"d.toml":  {strings.Repeat("a.", 100_000) + "b = 1", "nest too deeply"},
		"e.toml":  {strings.Repeat("a."+strings.Repeat("b.", 400)+"c = 1\n", 1000), "nest too deeply"},
		"d.nomad": {"a = " + strings.Repeat("!", maxHCL-10), "nest too deeply"},
		"e.hcl":   {"a = " + strings.Repeat("!", maxNested+1) + "true\n", "nest too deeply"},
		"f.hcl":   {"a = " + strings.Repeat("- /* - */", maxNested+1) + "1\n", "nest too deeply"},
		"h.hcl":   {"a = b" + strings.Repeat("[*]", maxControls+1) + "\n", "nest too deeply"},
		"i.hcl":   {"a = \"" + strings.Repeat("%", maxParts+2) + "\"\n", "too many parts"},
		"j.hcl":   {"a = <<E\n" + strings.Repeat("a\n", maxParts+2) + "E\n", "too many parts"},
		"g.hcl":   {"a = \"" + strings.Repeat("%{if true}", maxControls+1) + "\"\n", "nest too deeply"},
	} {
		if _, err := Read(file, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", file, err, c.want)
		}
	}
}

// TestLinesOfJSON: only a line feed ends a line, and a string keeps all its characters.
func TestLinesOfJSON(t *testing.T) {
	n, err := Read("a.json", []byte("{\"a\": [1,\r\"b\",\r\n\"c\u2028\u2029\u0085 d\"]}"))
	if err != nil {
		t.Fatal(err)
	}
	list := n.Content[0].Content[1].Content
	if b, c := list[1], list[2]; b.Line != 1 || c.Line != 2 || c.Value != "c\u2028\u2029\u0085 d" {
		t.Errorf("%d %q, %d %q", b.Line, b.Value, c.Line, c.Value)
	}
}

// FuzzRead: a document is read, or there is an error; each scalar has a line of the text.
func FuzzRead(f *testing.F) {
	f.Add("a.json", `{"a": [1, "b"]}`)
	f.Add("a.json", "{\"a\": [1,\r\"b\"]}")
	f.Add("a.toml", "[[a]]\nb = 'c'")
	f.Add("a.hcl", "a \"b\" {\n c = \"${d}\"\n e = {f = [1, null]}\n}\nvariable \"d\" { default = 3 }")
	f.Fuzz(func(t *testing.T, file, text string) {
		n, err := Read(file, []byte(text))
		if n == nil {
			return
		}
		if err != nil {
			t.Error("a document beside an error")
		}
		lines := strings.Count(text, "\n") + 1
		var check func(n *yaml.Node)
		check = func(n *yaml.Node) {
			if n.Line > lines {
				t.Errorf("line %d of %d", n.Line, lines)
			}
			for _, c := range n.Content {
				check(c)
			}
		}
		check(n)
	})
}
