package codec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/requeststate/operator/internal/mrtr"
)

func faultBody(message, field string) string {
	if field == "" {
		return fmt.Sprintf(`{"error":{"message":%q}}`, message)
	}
	return fmt.Sprintf(`{"error":{"message":%q,"field":%q}}`, message, field)
}

const (
	sealHas    = "a member is unknown; this call has state, stateBase64, method, target, arguments, principal"
	unsealHas  = "a member is unknown; this call has token, method, target, arguments, principal"
	oneValue   = "the body must be exactly one JSON value, without a byte order mark"
	twice      = "a member occurs twice; give each name once"
	wantBase64 = "stateBase64 must be canonical base64 of RFC 4648 section 4: the alphabet with + and /, padded, no line breaks, no stray bits at the end"
	argsTail   = "; what two parsers could read differently binds nothing"
)

func manyMembers(n int) string {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"%s%d":0`, canary, i))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// Both calls read their bodies alike; %s is a member that makes the call complete.
func TestAMalformedBodyOfEitherCallIsRefusedByName(t *testing.T) {
	b := newBench(t)
	for path, has := range map[string][2]string{
		pathSeal:   {`"state":"CANARY"`, sealHas},
		pathUnseal: {`"token":"CANARY"`, unsealHas},
	} {
		for _, c := range []struct{ body, message, field string }{
			{``, oneValue, ""},
			{"\ufeff{%s}", oneValue, ""},
			{`{%s}{%[1]s}`, oneValue, ""},
			{`{%s,}`, oneValue, ""},
			{`{%s} // CANARY`, oneValue, ""},
			{"{%s}\x00", oneValue, ""},
			{`{%s,"principal":"\uCANARY"}`, oneValue, ""},
			{`{%s,"principal":"`, oneValue, ""},
			{"{%s,\"principal\":\"CANARY\xff\"}", "the body is not UTF-8; a lone surrogate is written as an escape", ""},
			{"{%s,\"principal\":\"\xed\xa0\x80\"}", "the body is not UTF-8; a lone surrogate is written as an escape", ""},
			{`[{%s}]`, "the body must be a JSON object", ""},
			{`"CANARY"`, "the body must be a JSON object", ""},
			{`null`, "the body must be a JSON object", ""},
			{strings.Repeat("[", 10001), "the body nests too deeply; arguments may have up to 512 arrays and objects open at once", ""},
			{`{%s,%[1]s}`, twice, ""},
			{`{%s,"method":null,"m\u0065thod":"CANARY"}`, twice, ""},
			{`{%s,"CANARY":1,"CANARY":2}`, twice, ""},
			{`{%s,"CANARY":1}`, has[1], ""},
			{`{%s,"CANARY":null}`, has[1], ""},
			{`{%s,"":0}`, has[1], ""},
			{`{%s,"\ud800":0}`, has[1], ""},
			{`{%s,"method ":"CANARY"}`, has[1], ""},
			{manyMembers(mrtr.MaxMembers + 1), has[1], ""},
			{`{%s,"Method":"CANARY"}`, "a member differs from method only by case; write it exactly so", "method"},
			{`{%s,"METHOD":null}`, "a member differs from method only by case; write it exactly so", "method"},
			{`{%s,"principaL":"CANARY"}`, "a member differs from principal only by case; write it exactly so", "principal"},
			{`{%s,"argumentſ":{"CANARY":1}}`, "a member differs from arguments only by case; write it exactly so", "arguments"},
			{`{%s,"method":["CANARY"]}`, "method must be a string", "method"},
			{`{%s,"method":1}`, "method must be a string", "method"},
			{`{%s,"method":true}`, "method must be a string", "method"},
			{`{%s,"method":""}`, "method must not be empty; leave it out if there is none", "method"},
			{`{%s,"method":"CANARY","target":{"CANARY":1}}`, "target must be a string", "target"},
			{`{%s,"target":12}`, "target must be a string", "target"},
			{`{%s,"target":"CANARY"}`, "target needs method; give the method too, or leave both out", "target"},
			{`{%s,"target":""}`, "target needs method; give the method too, or leave both out", "target"},
			{`{%s,"target":"CANARY","method":null}`, "target needs method; give the method too, or leave both out", "target"},
			{`{%s,"arguments":{"CANARY":1}}`, "arguments needs method; give the method too, or leave both out", "arguments"},
			{`{%s,"arguments":{}}`, "arguments needs method; give the method too, or leave both out", "arguments"},
			{`{%s,"method":"CANARY","arguments":{"CANARY":1,"CANAR\u0059":2}}`, "arguments have an object with one name twice, under whatever spelling" + argsTail, "arguments"},
			{`{%s,"method":"CANARY","arguments":` + strings.Repeat("[", 513) + strings.Repeat("]", 513) + `}`, "arguments have more than 512 arrays and objects open at once" + argsTail, "arguments"},
			{`{%s,"method":"CANARY","arguments":{"CANARY":1e9999999999999999999}}`, "arguments have a number whose exponent is beyond 64 bits" + argsTail, "arguments"},
			{`{%s,"principal":["CANARY"]}`, "principal must be a string", "principal"},
			{`{%s,"principal":false}`, "principal must be a string", "principal"},
			{`{%s,"principal":""}`, "principal must not be empty; leave it out if there is none", "principal"},
		} {
			body := c.body
			if strings.Contains(body, "%") {
				body = fmt.Sprintf(body, has[0])
			}
			b.want(path+" "+body, b.post(path, body), 400, faultBody(c.message, c.field))
		}
	}
	if told := b.told(); told != "" {
		t.Errorf("malformed calls were counted: %s", told)
	}
}

func TestAMalformedStateIsRefusedByName(t *testing.T) {
	b := newBench(t)
	for body, want := range map[string]string{
		`{}`:                                faultBody("state is missing; give state or stateBase64", "state"),
		`{"state":null}`:                    faultBody("state is missing; give state or stateBase64", "state"),
		`{"state":null,"stateBase64":null}`: faultBody("state is missing; give state or stateBase64", "state"),
		`{"state":"CANARY","stateBase64":"AAAA"}`:         faultBody("state and stateBase64 exclude each other; give one of them", "stateBase64"),
		`{"state":"","stateBase64":""}`:                   faultBody("state and stateBase64 exclude each other; give one of them", "stateBase64"),
		`{"state":{"CANARY":1}}`:                          faultBody("state must be a string", "state"),
		`{"state":7}`:                                     faultBody("state must be a string", "state"),
		`{"stateBase64":["CANARY"]}`:                      faultBody("stateBase64 must be a string", "stateBase64"),
		`{"stateBase64":"CANARY"}`:                        faultBody(wantBase64, "stateBase64"), // not padded
		`{"stateBase64":"AA=="}x`:                         faultBody(oneValue, ""),
		`{"stateBase64":"AA"}`:                            faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"AB=="}`:                          faultBody(wantBase64, "stateBase64"), // stray bits
		`{"stateBase64":"AAB="}`:                          faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"AA==\n"}`:                        faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"AA\r=="}`:                        faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"AAAA\nAAAA"}`:                    faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":" AAAA"}`:                         faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"AAAA "}`:                         faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"_-8="}`:                          faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"===="}`:                          faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"AA==AAAA"}`:                      faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"AAAA="}`:                         faultBody(wantBase64, "stateBase64"),
		`{"stateBase64":"\ud800AAA"}`:                     faultBody(wantBase64, "stateBase64"),
		`{"statebase64":"AAAA"}`:                          faultBody("a member differs from stateBase64 only by case; write it exactly so", "stateBase64"),
		`{"state":"CANARY","token":"CANARY"}`:             faultBody(sealHas, ""),
		`{"State":"CANARY"}`:                              faultBody("a member differs from state only by case; write it exactly so", "state"),
		`{"\u017ftate":"CANARY"}`:                         faultBody("a member differs from state only by case; write it exactly so", "state"), // a long s
		`{"state":"CANARY","State":null,"state":"again"}`: faultBody(twice, ""),
	} {
		b.want(body, b.post(pathSeal, body), 400, want)
	}
}

func TestAMalformedTokenMemberIsRefusedByName(t *testing.T) {
	b := newBench(t)
	missing := faultBody("token is missing", "token")
	for body, want := range map[string]string{
		`{}`:                                  missing,
		`{"token":null}`:                      missing,
		`{"method":"CANARY"}`:                 missing,
		`{"token":1}`:                         faultBody("token must be a string", "token"),
		`{"token":{"CANARY":1}}`:              faultBody("token must be a string", "token"),
		`{"Token":"CANARY"}`:                  faultBody("a member differs from token only by case; write it exactly so", "token"),
		`{"to\u212aen":"CANARY"}`:             faultBody("a member differs from token only by case; write it exactly so", "token"), // a Kelvin sign
		`{"token":"CANARY","state":"x"}`:      faultBody(unsealHas, ""),
		`{"token":"CANARY","requestState":1}`: faultBody(unsealHas, ""),
	} {
		b.want(body, b.post(pathUnseal, body), 400, want)
	}
}

func TestNullIsAbsence(t *testing.T) {
	b := newBench(t)
	token := b.sealed(`{"state":"s","stateBase64":null,"method":null,"target":null,"arguments":null,"principal":null}`)
	if got := b.unseal(token, ""); got.status != 200 {
		t.Errorf("null is not absence: %d %s", got.status, got.body)
	}
	token = b.sealed(`{"state":null,"stateBase64":"cw==","method":"m","target":null,"arguments":null}`)
	for _, members := range []string{`"method":"m"`, `"method":"m","target":""`, `"method":"m","arguments":{}`, `"principal":null,"arguments":null,"target":null,"method":"m"`} {
		if got := b.unseal(token, members); got.status != 200 {
			t.Errorf("%s: %d %s", members, got.status, got.body)
		}
	}
}
