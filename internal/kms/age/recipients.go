package age

import (
	"fmt"
	"strings"

	"filippo.io/age"

	"github.com/requeststate/operator/internal/kms"
)

const maxRecipients = 16

// parseRecipients parses recipients of one kind, each named once.
func parseRecipients(texts []string) ([]age.Recipient, error) {
	if len(texts) > maxRecipients {
		return nil, refuseRecipient(-1, fmt.Sprintf("has more than %d entries: remove some", maxRecipients))
	}
	seen := make(map[string]bool, len(texts))
	var rs []age.Recipient
	hybrid := 0
	for i, s := range texts {
		if seen[s] {
			return nil, refuseRecipient(i, "is there twice: remove one")
		}
		seen[s] = true
		r, remedy := parseRecipient(s)
		if remedy != "" {
			return nil, refuseRecipient(i, remedy)
		}
		if _, ok := r.(*age.HybridRecipient); ok {
			hybrid++
		}
		rs = append(rs, r)
	}
	if hybrid != 0 && hybrid != len(rs) {
		return nil, refuseRecipient(-1, "mixes X25519 (age1…) and post-quantum (age1pq1…) recipients, and the weaker would decide: use one kind")
	}
	return rs, nil
}

// parseRecipient returns a recipient, or what is wrong with the text and what
// to do. The library's own errors repeat the text, and are not used.
func parseRecipient(s string) (age.Recipient, string) {
	switch upper := strings.ToUpper(s); {
	case strings.Contains(upper, "AGE-SECRET-KEY-") || strings.Contains(upper, "AGE-PLUGIN-"):
		return nil, "is a secret identity, not a recipient: it must be seen as exposed; remove it and make a new pair with kubectl requeststate init"
	case strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "sk-ssh") || strings.HasPrefix(s, "ecdsa-"):
		return nil, "is an ssh key, which is not supported: make an age identity with kubectl requeststate init or age-keygen"
	case strings.HasPrefix(s, "age1pq1"):
		if r, err := age.ParseHybridRecipient(s); err == nil {
			return r, ""
		}
		return nil, "is not a whole post-quantum recipient (age1pq1 and about 1,950 characters): copy it anew"
	case strings.HasPrefix(s, "age1") && strings.Contains(s[len("age1"):], "1"):
		// Bech32 data has no "1"; what stands before one is a plugin's name.
		return nil, "is a plugin recipient (age1NAME1…), which is not supported: make an age identity with kubectl requeststate init or age-keygen"
	case strings.HasPrefix(s, "age1"):
		if r, err := age.ParseX25519Recipient(s); err == nil {
			return r, ""
		}
		return nil, "is not a whole X25519 recipient (age1 and 58 characters): copy it anew"
	default:
		return nil, "is not an age recipient (age1… or age1pq1…), and passphrases are not supported: make an identity with kubectl requeststate init or age-keygen"
	}
}

// refuseRecipient names the field, or the list as a whole if i is negative.
func refuseRecipient(i int, remedy string) error {
	field := "kms.age.recipients"
	if i >= 0 {
		field = fmt.Sprintf("%s[%d]", field, i)
	}
	return kms.NewError(kms.Alert, opNew, kms.CodeInvalidRecipient, field+" "+remedy, nil)
}
