package fleet

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"mvdan.cc/sh/v3/syntax"
)

//go:embed templates
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"quote": quote, "indent": indent}).ParseFS(files, "templates/*"))

// quote writes a text as a scalar of YAML, which takes the strings of JSON.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string has no error
	return strings.TrimSuffix(b.String(), "\n")
}

// indent returns a text whose lines, but the empty ones, begin with n blanks.
func indent(n int, s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line != "\n" {
			b.WriteString(strings.Repeat(" ", n))
		}
		b.WriteString(line)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// place says where a shard finds its list and its number, and where it leaves its report.
type place struct {
	list    string // a file
	reports string // a directory
	index   string // the number, as the engine writes it into arguments
	run     string // the name of one run, as the engine writes it; "": the fleet's own
	keeps   bool   // the engine collects the files of reports
	// merges is set if the arguments are those of the merge of all shards.
	merges bool
}

// ofJob is the place of a shard in an Indexed Job, which has its number as a variable.
var ofJob = place{list: "/imgcheck/images", reports: "/reports", index: "$(JOB_COMPLETION_INDEX)"}

// places are those of Kinds.
var places = map[string]place{
	"job":     ofJob,
	"cronjob": {list: ofJob.list, reports: ofJob.reports, index: ofJob.index, run: "$(JOB_NAME)"}, // of each Job that it makes
	"github":  {list: "images", reports: ".", index: "$SHARD", keeps: true},                       // a variable of a shell
	"argo":    {list: ofJob.list, reports: ofJob.reports, index: "{{inputs.parameters.shard}}", keeps: true},
}

// page has the values for a template.
type page struct {
	*Fleet
	at place
}

// Part returns a part that several templates have.
func (p *page) Part(name string) (string, error) {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, name, p)
	return b.String(), err
}

// Merging returns the page whose arguments merge the shards' reports in the registry.
func (p *page) Merging() *page {
	own := *p
	own.at.merges = true
	return &own
}

// Volume reports whether reports are written to files.
func (p *page) Volume() bool { return p.Claim != "" || p.at.keeps }

// JobName reports whether the shards need the name of their Job as a variable.
func (p *page) JobName() bool { return p.at.run != "" }

// Args returns the arguments of a shard, or of the merge.
func (p *page) Args() []string {
	run := cmp.Or(p.at.run, p.Run())
	if p.at.merges {
		return []string{"fleet", "merge", "--from=" + p.Reports + ":" + run, "--output=json=" + p.at.reports + "/" + run + ".json"}
	}
	args := []string{"scan", "--input=" + p.at.list, fmt.Sprintf("--shard=%s/%d", p.at.index, p.Shards), "--fail-on=never"}
	config := "none"
	if p.Policy != "" {
		config = path.Join(path.Dir(p.at.list), policyFile)
	}
	for _, own := range []string{"--config=" + config, "--timeout=" + shardTime, "--jobs=2", "--no-cache", "--quiet"} {
		if name, _, _ := strings.Cut(own, "="); !p.says(name) && (own != "--no-cache" || !p.Stores()) {
			args = append(args, own)
		}
	}
	switch {
	case p.Reports != "":
		args = append(args, "--report-to="+p.Reports+":"+run+"-"+p.at.index)
	case p.Volume():
		args = append(args, "--output=json="+p.at.reports+"/"+run+"-"+p.at.index+".json")
	}
	return append(args, p.Scan...)
}

// policyFile is the name of the policy, beside the list.
const policyFile = "imgcheck.yaml"

// shardTime bounds a shard: GitHub ends a job after six hours.
const shardTime = "5h30m"

// says reports whether the user's own arguments of a scan have a flag.
func (p *page) says(flag string) bool {
	return slices.ContainsFunc(p.Scan, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// Stores reports whether the shards store indexes of layers, which they take from a cache.
func (p *page) Stores() bool { return p.says("--index-to") }

// Words returns the arguments of a shard as words of a shell.
func (p *page) Words() ([]string, error) {
	var words []string
	for _, a := range p.Args() {
		before, after, has := strings.Cut(a, p.at.index)
		if has {
			words = append(words, `"`+before+p.at.index+after+`"`) // of checked names alone
			continue
		}
		w, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			return nil, err
		}
		words = append(words, w)
	}
	return words, nil
}

// Numbers returns the shards' numbers.
func (p *page) Numbers() string {
	var list []string
	for i := range p.Shards {
		list = append(list, fmt.Sprint(i))
	}
	return strings.Join(list, ", ")
}

// GHCR reports whether an image is in GitHub's registry.
func (p *page) GHCR() bool {
	return slices.ContainsFunc(p.Images, func(ref string) bool { return strings.HasPrefix(ref, "ghcr.io/") })
}

// The actions of a workflow, each by its commit.
const (
	upload   = "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0"
	download = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
)

// Upload returns the action that keeps a file.
func (p *page) Upload() string { return upload }

// Download returns the action that fetches kept files.
func (p *page) Download() string { return download }

// Says returns the comment at the head of a document.
func (p *page) Says() []string {
	says := []string{
		fmt.Sprintf("imgcheck fleet: %s in %s.", plural(len(p.Images), "image"), plural(p.Shards, "shard")),
		"The name stands for the list and the work of the shards: for others, write this file anew.",
	}
	switch {
	case p.Reports != "" && p.JobName():
		says = append(says, "The reports, when all shards of a Job have run: imgcheck fleet merge --from "+p.Reports+":JOB, as kubectl get jobs names it")
	case p.Reports != "":
		says = append(says, "The reports, when all shards have run: imgcheck fleet merge --from "+p.Reports+":"+p.Run())
	case p.Claim != "":
		says = append(says, "The reports, when all shards have run: imgcheck fleet merge REPORT.json..., of the volume "+p.Claim)
	case !p.at.keeps:
		says = append(says, "Only the logs have the results, as text: --reports REPOSITORY or --claim VOLUME keeps the reports.")
	}
	return says
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
