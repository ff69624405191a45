package kms

import (
	"os"
	"path/filepath"
	"testing"

	localconfig "github.com/nsmithuk/local-kms/src/config"
)

// The credentials of the tests. No stand-in checks them; no error may show
// them.
const (
	accessKey = "AKIDQUOKKA"
	secretKey = "SECRETWOMBAT"
)

// TestMain keeps the SDK away from whatever credentials the machine has, and
// ends the processes that tests share.
func TestMain(m *testing.M) {
	localconfig.AWSRegion, localconfig.AWSAccountId = region, "111122223333"
	none := filepath.Join(os.TempDir(), "no-such-folder", "none")
	for k, v := range map[string]string{
		"AWS_ACCESS_KEY_ID":           accessKey,
		"AWS_SECRET_ACCESS_KEY":       secretKey,
		"AWS_SESSION_TOKEN":           "",
		"AWS_EC2_METADATA_DISABLED":   "true",
		"AWS_CONFIG_FILE":             none,
		"AWS_SHARED_CREDENTIALS_FILE": none,
		"AWS_PROFILE":                 "",
		"AWS_CA_BUNDLE":               "",
		"AWS_REGION":                  "us-east-1", // not the keys'
	} {
		if err := os.Setenv(k, v); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	stopMoto()
	os.Exit(code)
}
