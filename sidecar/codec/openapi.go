package codec

import (
	_ "embed"
	"net/http"
)

// OpenAPI is the OpenAPI 3.1 document of the codec's API, in YAML. It is what GET
// /openapi.yaml answers with.
//
//go:embed openapi.yaml
var OpenAPI string

// document answers with the OpenAPI document, joined or not.
func (x *exchange) document() *fault {
	if x.r.Method != http.MethodGet {
		return wrongMethod(http.MethodGet)
	}
	x.answerAs("application/yaml", http.StatusOK, []byte(OpenAPI))
	return nil
}
