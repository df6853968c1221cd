package patch

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// An error quotes the words in which a registry refuses something: each of these has the
// status of a missing login, or one that says even less.
func TestRefusalsInTheirWords(t *testing.T) {
	isUpload := func(r *http.Request) bool { return r.Method == http.MethodPost }
	isBlob := func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/")
	}
	isName := func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/new")
	}
	login := "run `docker login HOST` as a user who may push to app, or ask whoever runs it"
	for _, tt := range []struct {
		name string
		is   func(r *http.Request) bool
		code int
		body string
		want string
	}{
		// https://github.com/goharbor/harbor/issues/17390: the project's quota.
		{
			"Harbor's quota", isName, 403,
			`{"errors":[{"code":"DENIED","message":"adding 29.0 MiB of storage resource, which when updated to current usage of 152.4 MiB will exceed the configured upper limit of 10.0 MiB."}]}`,
			"pushing HOST/app:new: HOST does not allow it (adding 29.0 MiB of storage resource, which when updated to current usage of 152.4 MiB will exceed the configured upper limit of 10.0 MiB.): " + login,
		},
		// https://github.com/goharbor/harbor/issues/9718: a tag that never changes.
		// Harbor has 412 for it, as others would have for If-Match.
		{
			"Harbor's immutable tag", isName, 412,
			`{"errors":[{"code":"PRECONDITION","message":"Failed to process request due to 'app:new' configured as immutable."}]}`,
			"pushing HOST/app:new: HOST refuses it (412 Precondition Failed) (Failed to process request due to 'app:new' configured as immutable.): ask whoever runs it",
		},
		// https://github.com/aws/containers-roadmap/issues/862
		{
			"ECR's immutable tag", isName, 400,
			`{"errors":[{"code":"TAG_INVALID","message":"The image tag 'new' already exists in the 'app' repository and cannot be overwritten because the repository is immutable."}]}`,
			"pushing HOST/app:new: HOST refuses it (400 Bad Request) (The image tag 'new' already exists in the 'app' repository and cannot be overwritten because the repository is immutable.): ask whoever runs it",
		},
		// https://github.com/ministryofjustice/cloud-platform/issues/7245
		{
			"ECR's policy", isUpload, 403,
			`{"errors":[{"code":"DENIED","message":"User: arn:aws:sts::123456789012:assumed-role/github/GitHubActions is not authorized to perform: ecr:InitiateLayerUpload on resource: arn:aws:ecr:eu-west-2:123456789012:repository/app because no identity-based policy allows the ecr:InitiateLayerUpload action"}]}`,
			"pushing the new layer: HOST does not allow it (User: arn:aws:sts::123456789012:assumed-role/github/GitHubActions is not authorized to perform: ecr:InitiateLayerUpload on resource: arn:aws:ecr:eu-west-2:123456789012:repository/app because no identity-based policy allows the ecr:InitiateLayerUpload action): " + login,
		},
		// ECR makes no repository by itself.
		{
			"ECR's missing repository", isUpload, 404,
			`{"errors":[{"code":"NAME_UNKNOWN","message":"The repository with name 'app' does not exist in the registry with id '123456789012'"}]}`,
			"pushing the new layer: HOST has no repository app, or lacks something that the manifest names (The repository with name 'app' does not exist in the registry with id '123456789012'): create it first, or run again",
		},
		// https://github.com/docker/build-push-action/issues/606
		{
			"GHCR's workflow token", isUpload, 403,
			`{"errors":[{"code":"DENIED","message":"installation not allowed to Create organization package"}]}`,
			"pushing the new layer: HOST does not allow it (installation not allowed to Create organization package): " + login,
		},
		{
			"GHCR's package", isUpload, 403,
			`{"errors":[{"code":"DENIED","message":"permission_denied: write_package"}]}`,
			"pushing the new layer: HOST does not allow it (permission_denied: write_package): " + login,
		},
		// https://github.com/jfrog/jenkins-artifactory-plugin/issues/120: Artifactory's
		// errors have a status for a code.
		{
			"Artifactory's permission", isBlob, 403,
			`{"errors" : [ {"status" : 403, "message" : "User token:user is not permitted to deploy 'app/new/manifest.json' into 'docker-local:app/new/manifest.json'."} ]}`,
			"pushing the new layer: HOST does not allow it (User token:user is not permitted to deploy 'app/new/manifest.json' into 'docker-local:app/new/manifest.json'.): " + login,
		},
		// https://github.com/GoogleContainerTools/kaniko/issues/1095: what is meant
		// stands in the detail.
		{
			"Artifactory's tag", isName, 400,
			`{"errors":[{"code":"MANIFEST_INVALID","message":"manifest invalid","detail":{"description":"HTTP 403 Forbidden"}}]}`,
			"pushing HOST/app:new: HOST refuses it (400 Bad Request) (manifest invalid: HTTP 403 Forbidden): ask whoever runs it",
		},
		{"a line of text", isUpload, 403, "Not Authorized\n", "pushing the new layer: HOST does not allow it (Not Authorized): " + login},
		{"a page", isUpload, 403, "<html><h1>Forbidden</h1>", "pushing the new layer: HOST does not allow it: run `docker login HOST` as a user who may push to app"},
		{"nothing", isUpload, 401, "", "pushing the new layer: HOST does not allow it: run `docker login HOST` as a user who may push to app"},
		{"another JSON", isUpload, 401, `{"details":"incorrect username or password"}`, "pushing the new layer: HOST does not allow it (incorrect username or password): run `docker login HOST` as a user who may push to app"},
		{
			"what a terminal obeys", isUpload, 403, `{"errors":[{"message":"\u001b[31mred\n::stop-commands::x"}]}`,
			`pushing the new layer: HOST does not allow it (\x1b[31mred ::stop-commands::x): ` + login,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			ref := s.push(t, "app:1", imagetest.V1(t, app))
			b := open(t, ref, quick())
			p := patchAll(t, b, change())
			s.reset(func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if !tt.is(r) {
					return false
				}
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.code)
				io.WriteString(w, tt.body)
				return true
			})
			_, err := Publish(t.Context(), b, p, s.host+"/app:new", quick())
			wantError(t, err, "HOST/app:new: "+tt.want)
			if s.reset(nil); s.digest(t, "app:new") != "" {
				t.Error("the name is there")
			}
		})
	}
}
