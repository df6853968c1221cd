package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/review"
)

func commentCommand() *cli.Command {
	return &cli.Command{
		Name:      "comment",
		Usage:     "say in a pull request what a change adds and resolves",
		UsageText: "imgcheck comment --base REPORT|IMAGE [options] REPORT.json",
		Description: "REPORT.json is what `imgcheck scan -o json=REPORT.json` wrote of the change's image. comment compares\n" +
			"it with the image of the branch that the change goes to, a saved report or an image to scan, and\n" +
			"writes the errors and warnings that are new or gone into one comment of the pull request (GitHub) or\n" +
			"merge request (GitLab), which later runs keep up to date. It makes no comment if there are none.\n\n" +
			"In a workflow or a pipeline it finds repository, number and address itself. The token is in\n" +
			"GITHUB_TOKEN or GH_TOKEN, or in GITLAB_TOKEN. The exit status is 0 whatever the comment says,\n" +
			"and 2 if it could not be written.\n\n" +
			"Examples:\n" +
			"   imgcheck comment --base ghcr.io/org/app:main report.json\n" +
			"   imgcheck comment --base main.json --dry-run report.json",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "base", Usage: "the saved JSON `REPORT` of the image before the change, or the image itself"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the comment, and send nothing"},
			&cli.StringFlag{Name: "category", Usage: "distinguish this comment from others of the same change by `NAME`", DefaultText: "the image without its digest, and the platform"},
			&cli.StringFlag{Name: "on", Usage: "`PLATFORM` of the change: github or gitlab", DefaultText: "the one that runs the job"},
			&cli.StringFlag{Name: "api", Usage: "`ADDRESS` of the platform's interface", DefaultText: "that of the job, else https://api.github.com or https://gitlab.com/api/v4"},
			&cli.StringFlag{Name: "project", Usage: "the `REPOSITORY`, OWNER/NAME", DefaultText: "that of the job"},
			&cli.IntFlag{Name: "change", Usage: "`NUMBER` of the pull request or merge request", DefaultText: "that of the job"},
			configFlag(), rulesFlag(),
		}, imageFlags())),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return fmt.Errorf("comment takes one report, not %d: see `imgcheck comment --help`", c.NArg())
			}
			after, err := readReport(c.Args().First(), c.App.Reader)
			if err != nil {
				return err
			}
			change, err := changeOf(c) // before the scan, which takes longer
			if err != nil && !c.Bool("dry-run") {
				return err
			}
			before, err := baseReport(c)
			if err != nil {
				return err
			}
			diff := report.Compare(before, after)
			var body bytes.Buffer
			mark := marker(cmp.Or(c.String("category"), report.Category(after.Image)))
			fmt.Fprintln(&body, mark)
			if err := diff.Comment(&body); err != nil {
				return err
			}
			if c.Bool("dry-run") {
				_, err := body.WriteTo(c.App.Writer)
				return err
			}
			did, page, err := review.Keep(c.Context, change, mark, body.String(), !diff.Grave(), review.Options{Insecure: c.Bool("insecure")})
			if err != nil {
				return fmt.Errorf("writing the comment: %w", err)
			}
			fmt.Fprintln(c.App.ErrWriter, says(did, page))
			return nil
		},
	}
}

// marker returns the line that a comment is found by again. It has nothing of the category,
// which may be hostile.
func marker(category string) string {
	sum := sha256.Sum256([]byte(category))
	return fmt.Sprintf("<!-- imgcheck comment %x -->", sum[:12])
}

func says(did review.Outcome, page string) string {
	switch did {
	case review.None:
		return "imgcheck: no comment: the change adds and resolves no errors and no warnings"
	case review.Same:
		return strings.TrimSpace("imgcheck: the comment says that already " + page)
	}
	return strings.TrimSpace(fmt.Sprintf("imgcheck: the comment is %s %s", did, page))
}

// baseReport returns the report of the image before the change: it reads the file of --base,
// or scans the image.
func baseReport(c *cli.Context) (*report.Document, error) {
	base := c.String("base")
	if base == "" {
		return nil, errors.New("comment needs --base: the report of the image before the change, or the image")
	}
	doc, err := reportOrImage(c, base, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("--base: %w", err)
	}
	return doc, nil
}

// changeOf returns the change of the flags, else of the variables that GitHub's workflows and
// GitLab's pipelines have:
// https://docs.github.com/en/actions/reference/workflows-and-actions/variables and
// https://docs.gitlab.com/ci/variables/predefined_variables/.
func changeOf(c *cli.Context) (review.Change, error) {
	on := c.String("on")
	if on == "" {
		switch {
		case os.Getenv("GITHUB_ACTIONS") == "true":
			on = "github"
		case os.Getenv("GITLAB_CI") == "true":
			on = "gitlab"
		default:
			return review.Change{}, errors.New("this is no job of GitHub or GitLab: say --on github or --on gitlab, --project and --change, or --dry-run")
		}
	}
	var r review.Change
	var tokens string
	switch on {
	case "github":
		r = review.Change{
			Address: cmp.Or(c.String("api"), os.Getenv("GITHUB_API_URL"), "https://api.github.com"), Project: cmp.Or(c.String("project"), os.Getenv("GITHUB_REPOSITORY")),
			Number: c.Int("change"), Token: cmp.Or(os.Getenv("GITHUB_TOKEN"), os.Getenv("GH_TOKEN")),
		}
		tokens = "GITHUB_TOKEN: in a workflow, `env: GITHUB_TOKEN: ${{ github.token }}`"
		if r.Number == 0 {
			r.Number = pullRequest()
		}
	case "gitlab":
		r = review.Change{
			Address: cmp.Or(c.String("api"), os.Getenv("CI_API_V4_URL"), "https://gitlab.com/api/v4"), Project: cmp.Or(c.String("project"), os.Getenv("CI_MERGE_REQUEST_PROJECT_ID"), os.Getenv("CI_PROJECT_ID")),
			Number: c.Int("change"), Token: os.Getenv("GITLAB_TOKEN"), GitLab: true,
		}
		tokens = "GITLAB_TOKEN: a masked variable with a project access token of the scope api"
		if r.Number == 0 {
			r.Number, _ = strconv.Atoi(os.Getenv("CI_MERGE_REQUEST_IID"))
		}
	default:
		return r, fmt.Errorf("--on %q: comment knows github and gitlab", on)
	}
	switch {
	case r.Project == "":
		return r, errors.New("the repository is not known: say --project OWNER/NAME")
	case r.Number < 1:
		return r, errors.New("the job is not that of a pull request or merge request: say --change NUMBER, or run comment only for those")
	case r.Token == "":
		return r, errors.New("there is no token in " + tokens)
	}
	return r, nil
}

// maxEvent bounds the file of a workflow's event, in bytes. GitHub's have some 100 KB.
const maxEvent = 25 << 20

// pullRequest returns the number of a workflow's pull request, or 0.
func pullRequest() int {
	f, err := os.Open(os.Getenv("GITHUB_EVENT_PATH"))
	if err == nil {
		defer f.Close()
		var event struct {
			PullRequest struct {
				Number int `json:"number"`
			} `json:"pull_request"`
			Issue struct {
				Number int       `json:"number"`
				Is     *struct{} `json:"pull_request"`
			} `json:"issue"`
		}
		if json.NewDecoder(io.LimitReader(f, maxEvent)).Decode(&event) == nil {
			if event.Issue.Is != nil {
				return event.Issue.Number
			}
			if event.PullRequest.Number > 0 {
				return event.PullRequest.Number
			}
		}
	}
	if m := pullRef.FindStringSubmatch(os.Getenv("GITHUB_REF")); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}

var pullRef = regexp.MustCompile(`^refs/pull/([0-9]{1,9})/`)
