package v1alpha1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

const (
	ttlMessage         = "ttl must be from 10s to 24h, written in whole hours, minutes and seconds such as 10m or 1h30m"
	skewMessage        = "clockSkew must be from 0s to 5m, written in whole minutes and seconds such as 60s"
	intervalMessage    = "rotation.interval must be at most 87600h, written in whole hours, minutes and seconds such as 720h, or 0s to rotate only on request"
	stallMessage       = "rotation.stallAfter must be from 1s to 168h, written in whole hours, minutes and seconds such as 15m"
	keyIDMessage       = "kms.aws.keyID must be the ARN of a key or alias (arn:aws:kms:REGION:ACCOUNT:key/ID), an alias (alias/NAME) or a key id"
	regionMessage      = "kms.aws.region must be the name of an AWS region such as eu-west-1, or be left out"
	nativeMessage      = "kms.age.recipients must be native age recipients (age1... or age1pq1...): ssh keys and passphrases are not supported, and an AGE-SECRET-KEY-... is the private half, which is now exposed; make an identity with kubectl requeststate init or age-keygen, and use its public key"
	wholeMessage       = "kms.age.recipients: each must be a whole X25519 recipient (age1 and 58 characters) or a whole post-quantum recipient (age1pq1 and about 1,950 characters); plugin recipients (age1NAME1...) are not supported"
	shortMessage       = "rotation.interval must be at least 2*(ttl+clockSkew), so that one rotation ends before the next begins: raise rotation.interval, lower ttl or clockSkew, or set rotation.interval to 0s to rotate only on request"
	revokedMessage     = "a key id is 16 lower-case hexadecimal digits, as in status.keyring.keys[].id"
	issuerMessage      = "principal.jwt.issuer must be an https URL without user, query and fragment, as in the iss claim of the tokens"
	jwksMessage        = "principal.jwt.jwksURI must be an https URL: leave it out to find it by OpenID Connect discovery"
	headerNameMessage  = "principal.header.name must be a header name of letters, digits and '-', such as X-Forwarded-User"
	proxiesMessage     = "principal.header.trustedProxies must be CIDRs such as 10.0.0.0/8; write a single address as 10.0.0.1/32"
	unboundJWTMessage  = "principal.jwt is set but principal.source is not JWT, so nothing would be bound: set source to JWT or remove jwt"
	unboundHeadMessage = "principal.header is set but principal.source is not Header, so nothing would be bound: set source to Header or remove header"
	accountsMessage    = "serviceAccountNames must be names of service accounts in this namespace, such as default"
)

// jwt and header return a principal stanza that is whole but for what the arguments say.
func jwt(more string) string {
	return kmsAge + "principal: {source: JWT, jwt: {issuer: \"https://login.example.com\", audiences: [shop]" + more + "}}"
}

func jwtIssuer(issuer string) string {
	return kmsAge + "principal: {source: JWT, jwt: {audiences: [shop], issuer: " + issuer + "}}"
}

func header(name, proxies string) string {
	return kmsAge + "principal: {source: Header, header: {name: " + name + ", trustedProxies: " + proxies + "}}"
}

func recipients(list ...string) string {
	return "kms: {age: {recipients: [\"" + strings.Join(list, `", "`) + "\"]}}"
}

func numbered(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func TestRequestStateKeyRefusals(t *testing.T) {
	const arn = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	cases := []struct{ name, spec, field, message string }{
		{"no kms", "ttl: 10m", "spec.kms", "Required value"},
		{"kms without provider", "kms: {}", "spec.kms", "kms names no provider: set exactly one of kms.aws and kms.age"},
		{"two providers", "kms: {aws: {keyID: " + arn + "}, age: {recipients: [" + recipient1 + "]}}", "spec.kms", "kms names two providers: set exactly one of kms.aws and kms.age; to move to another, change this field and a rotation follows"},
		{"aws without key", "kms: {aws: {region: eu-west-1}}", "spec.kms.aws.keyID", "Required value"},
		{"aws with empty key", `kms: {aws: {keyID: ""}}`, "spec.kms.aws.keyID", keyIDMessage},
		{"aws with an ARN of another service", "kms: {aws: {keyID: \"arn:aws:s3:::bucket\"}}", "spec.kms.aws.keyID", keyIDMessage},
		{"aws with a bare name", "kms: {aws: {keyID: deployer}}", "spec.kms.aws.keyID", keyIDMessage},
		{"aws with a line break", "kms: {aws: {keyID: \"alias/a\\nb\"}}", "spec.kms.aws.keyID", keyIDMessage},
		{"aws key too long", "kms: {aws: {keyID: alias/" + strings.Repeat("a", 507) + "}}", "spec.kms.aws.keyID", "Too long: may not be more than 512 bytes"},
		{"aws regions disagree", "kms: {aws: {keyID: " + arn + ", region: us-east-1}}", "spec.kms.aws.region", "kms.aws.region contradicts the region in kms.aws.keyID: leave region out, or make them agree"},
		{"aws region malformed", "kms: {aws: {keyID: alias/a, region: Ireland}}", "spec.kms.aws.region", regionMessage},
		{"aws region is an endpoint", "kms: {aws: {keyID: alias/a, region: eu-west-1.evil.example}}", "spec.kms.aws.region", regionMessage},
		{"age without recipients", "kms: {age: {recipients: []}}", "spec.kms.age.recipients", "should have at least 1 items"},
		{"age with 17 recipients", "kms: {age: {recipients: " + numbered(17, "age1x%d") + "}}", "spec.kms.age.recipients", "must have at most 16 items"},
		{"age recipient twice", recipients(recipient1, recipient1), "spec.kms.age.recipients[1]", `Duplicate value: "` + recipient1 + `"`},
		{"age with an ssh key", recipients("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL"), "spec.kms.age.recipients", nativeMessage},
		{"age with a passphrase", recipients("correct horse battery staple"), "spec.kms.age.recipients", nativeMessage},
		{"age with a private identity", recipients("AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ"), "spec.kms.age.recipients", nativeMessage},
		{"age with a plugin recipient", recipients("age1yubikey1q2w7u3vpya839jxxuq8g0sedh3d740d4xvn639sqhr95ejj8vu3hyfumptt"), "spec.kms.age.recipients", wholeMessage},
		{"age recipient cut short", recipients(recipient1[:61]), "spec.kms.age.recipients", wholeMessage},
		{"age hybrid recipient cut short", recipients(hybridRecipient[:1000]), "spec.kms.age.recipients", wholeMessage},
		{"age kinds mixed", recipients(recipient1, hybridRecipient), "spec.kms.age.recipients", "kms.age.recipients mixes X25519 (age1...) and post-quantum (age1pq1...) recipients: use one kind, since a file for both is only as strong as the weaker"},
		{"age secret without a name", "kms: {age: {recipients: [" + recipient1 + "], identitySecret: {key: a}}}", "spec.kms.age.identitySecret.name", "Required value"},
		{"age secret with a path", "kms: {age: {recipients: [" + recipient1 + "], identitySecret: {name: a, key: ../b}}}", "spec.kms.age.identitySecret.key", "kms.age.identitySecret.key must be the name of an entry of the Secret, such as identity.txt"},

		{"audience empty", kmsAge + `audience: ""`, "spec.audience", `audience must not be empty: leave it out for the default "<namespace>/<name>", or name the service`},
		{"audience with a line break", kmsAge + `audience: "a\nb"`, "spec.audience", "audience must not contain control characters: name the service in plain text"},
		{"audience too long", kmsAge + "audience: " + strings.Repeat("a", 254), "spec.audience", "Too long: may not be more than 253 bytes"},
		{"ttl too short", kmsAge + "ttl: 9s", "spec.ttl", ttlMessage},
		{"ttl too long", kmsAge + "ttl: 24h1s", "spec.ttl", ttlMessage},
		{"ttl with a fraction", kmsAge + "ttl: 10.5s", "spec.ttl", ttlMessage},
		{"ttl without a unit", kmsAge + `ttl: "600"`, "spec.ttl", ttlMessage},
		{"ttl negative", kmsAge + "ttl: -10m", "spec.ttl", ttlMessage},
		{"ttl in days", kmsAge + "ttl: 1d", "spec.ttl", ttlMessage},
		{"ttl empty", kmsAge + `ttl: ""`, "spec.ttl", ttlMessage},
		{"ttl a number", kmsAge + "ttl: 600", "spec.ttl", `must be of type string: "integer"`},
		{"clockSkew too large", kmsAge + "clockSkew: 5m1s", "spec.clockSkew", skewMessage},
		{"clockSkew negative", kmsAge + "clockSkew: -1s", "spec.clockSkew", skewMessage},
		{"interval too short for the defaults", kmsAge + "rotation: {interval: 21m59s}", "spec.rotation.interval", shortMessage},
		{"interval too short for ttl", kmsAge + "ttl: 24h\nrotation: {interval: 48h}", "spec.rotation.interval", shortMessage},
		{"interval too short for clockSkew", kmsAge + "ttl: 10s\nclockSkew: 5m\nrotation: {interval: 10m19s}", "spec.rotation.interval", shortMessage},
		{"interval too long", kmsAge + "rotation: {interval: 87600h1s}", "spec.rotation.interval", intervalMessage},
		{"interval in days", kmsAge + "rotation: {interval: 30d}", "spec.rotation.interval", intervalMessage},
		{"stallAfter zero", kmsAge + "rotation: {stallAfter: 0s}", "spec.rotation.stallAfter", stallMessage},
		{"stallAfter too long", kmsAge + "rotation: {stallAfter: 169h}", "spec.rotation.stallAfter", stallMessage},

		{"revoked id twice", kmsAge + "revokedKeyIDs: [00112233aabbccdd, 00112233aabbccdd]", "spec.revokedKeyIDs[1]", `Duplicate value: "00112233aabbccdd"`},
		{"revoked id in upper case", kmsAge + "revokedKeyIDs: [00112233AABBCCDD]", "spec.revokedKeyIDs[0]", revokedMessage},
		{"revoked id cut short", kmsAge + "revokedKeyIDs: [00112233aabbccd]", "spec.revokedKeyIDs[0]", revokedMessage},
		{"revoked id too long", kmsAge + "revokedKeyIDs: [00112233aabbccdd0]", "spec.revokedKeyIDs[0]", "Too long: may not be more than 16 bytes"},
		{"65 revoked ids", kmsAge + "revokedKeyIDs: " + numbered(65, `"00112233aabbcc%02x"`), "spec.revokedKeyIDs", "must have at most 64 items"},

		{"unknown source", kmsAge + "principal: {source: Jwt}", "spec.principal.source", `supported values: "None", "JWT", "Header"`},
		{"JWT without jwt", kmsAge + "principal: {source: JWT}", "spec.principal.jwt", "principal.source is JWT but principal.jwt is missing: set principal.jwt.issuer and principal.jwt.audiences"},
		{"Header without header", kmsAge + "principal: {source: Header}", "spec.principal.header", "principal.source is Header but principal.header is missing: set principal.header.name and principal.header.trustedProxies"},
		{"jwt without source", kmsAge + "principal: {jwt: {issuer: \"https://i.example\", audiences: [a]}}", "spec.principal.jwt", unboundJWTMessage},
		{"header without source", kmsAge + "principal: {header: {name: X-User, trustedProxies: [10.0.0.0/8]}}", "spec.principal.header", unboundHeadMessage},
		{"jwt beside header", kmsAge + "principal: {source: Header, header: {name: X-User, trustedProxies: [10.0.0.0/8]}, jwt: {issuer: \"https://i.example\", audiences: [a]}}", "spec.principal.jwt", unboundJWTMessage},
		{"header beside jwt", kmsAge + "principal: {source: JWT, jwt: {issuer: \"https://i.example\", audiences: [a]}, header: {name: X-User, trustedProxies: [10.0.0.0/8]}}", "spec.principal.header", unboundHeadMessage},
		{"no issuer", kmsAge + "principal: {source: JWT, jwt: {audiences: [a]}}", "spec.principal.jwt.issuer", "Required value"},
		{"issuer empty", jwtIssuer(`""`), "spec.principal.jwt.issuer", "principal.jwt.issuer must not be empty: set the https URL of the OpenID Connect issuer"},
		{"issuer with a password", jwtIssuer(`"https://u:p@login.example.com"`), "spec.principal.jwt.issuer", issuerMessage},
		{"issuer with a query", jwtIssuer(`"https://login.example.com/?a=b"`), "spec.principal.jwt.issuer", issuerMessage},
		{"issuer over http", jwtIssuer(`"http://login.example.com"`), "spec.principal.jwt.issuer", issuerMessage},
		{"issuer no URL", jwtIssuer("login.example.com"), "spec.principal.jwt.issuer", issuerMessage},
		{"issuer without host", jwtIssuer(`"https:///tenant"`), "spec.principal.jwt.issuer", issuerMessage},
		{"issuer too long", jwtIssuer(`"https://i.example/` + strings.Repeat("a", 500) + `"`), "spec.principal.jwt.issuer", "Too long: may not be more than 512 bytes"},
		{"no audiences", kmsAge + "principal: {source: JWT, jwt: {issuer: \"https://i.example\"}}", "spec.principal.jwt.audiences", "Required value"},
		{"audiences empty", kmsAge + "principal: {source: JWT, jwt: {issuer: \"https://i.example\", audiences: []}}", "spec.principal.jwt.audiences", "should have at least 1 items"},
		{"an empty audience", kmsAge + "principal: {source: JWT, jwt: {issuer: \"https://i.example\", audiences: [\"\"]}}", "spec.principal.jwt.audiences[0]", "should be at least 1 chars long"},
		{"17 audiences", kmsAge + "principal: {source: JWT, jwt: {issuer: \"https://i.example\", audiences: " + numbered(17, "a%d") + "}}", "spec.principal.jwt.audiences", "must have at most 16 items"},
		{"audience twice", kmsAge + "principal: {source: JWT, jwt: {issuer: \"https://i.example\", audiences: [a, a]}}", "spec.principal.jwt.audiences[1]", `Duplicate value: "a"`},
		{"jwksURI over http", jwt(`, jwksURI: "http://login.example.com/keys"`), "spec.principal.jwt.jwksURI", jwksMessage},
		{"jwksURI empty", jwt(`, jwksURI: ""`), "spec.principal.jwt.jwksURI", jwksMessage},
		{"claims without sub", jwt(", claims: [iss, client_id]"), "spec.principal.jwt.claims", "principal.jwt.claims must include iss and sub, since a subject is unique only within its issuer"},
		{"claims without iss", jwt(", claims: [sub]"), "spec.principal.jwt.claims", "principal.jwt.claims must include iss and sub, since a subject is unique only within its issuer"},
		{"claims empty", jwt(", claims: []"), "spec.principal.jwt.claims", "principal.jwt.claims must include iss and sub, since a subject is unique only within its issuer"},
		{"claim twice", jwt(", claims: [iss, sub, sub]"), "spec.principal.jwt.claims", "principal.jwt.claims names a claim twice: name each once"},
		{"17 claims", jwt(", claims: " + numbered(17, "c%d")), "spec.principal.jwt.claims", "must have at most 16 items"},
		{"caBundle no base64", jwt(", caBundle: \"-----BEGIN\""), "spec.principal.jwt.caBundle", `must be of type byte: "-----BEGIN"`},
		{"caBundle too large", jwt(", caBundle: " + strings.Repeat("QUFB", 16385)), "spec.principal.jwt.caBundle", "Too long: may not be more than 65536 bytes"},
		{"header name with a colon", header(`"X-User:"`, "[10.0.0.0/8]"), "spec.principal.header.name", headerNameMessage},
		{"header name with an underscore", header("X_User", "[10.0.0.0/8]"), "spec.principal.header.name", headerNameMessage},
		{"header name empty", header(`""`, "[10.0.0.0/8]"), "spec.principal.header.name", headerNameMessage},
		{"trustedProxies empty", header("X-User", "[]"), "spec.principal.header.trustedProxies", "principal.header.trustedProxies must not be empty, since any client could then name any principal: list the CIDRs of the proxies that set the header"},
		{"trustedProxies missing", kmsAge + "principal: {source: Header, header: {name: X-User}}", "spec.principal.header.trustedProxies", "Required value"},
		{"trusted address", header("X-User", "[10.0.0.1]"), "spec.principal.header.trustedProxies", proxiesMessage},
		{"33 trusted proxies", header("X-User", numbered(33, "10.0.0.%d/32")), "spec.principal.header.trustedProxies", "must have at most 32 items"},

		{"no service accounts", kmsAge + "serviceAccountNames: []", "spec.serviceAccountNames", "serviceAccountNames must not be empty, since no pod could read the ring: name the service accounts of the MCP server pods"},
		{"service account of another namespace", kmsAge + "serviceAccountNames: [\"prod:default\"]", "spec.serviceAccountNames", accountsMessage},
		{"service account twice", kmsAge + "serviceAccountNames: [a, a]", "spec.serviceAccountNames[1]", `Duplicate value: "a"`},
		{"33 service accounts", kmsAge + "serviceAccountNames: " + numbered(33, "a%d"), "spec.serviceAccountNames", "must have at most 32 items"},
	}
	ns, c := env.Namespace(t), strict(env.Client)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			wantRefusal(t, c.Create(t.Context(), keyFromYAML(t, ns.Name, "refused", tc.spec)), tc.field, tc.message)
		})
	}
}

func TestRequestStateKeyTyposAreRefused(t *testing.T) {
	const principalJWT = "principal: {source: JWT, jwt: {issuer: \"https://i.example\", audiences: [a], "
	cases := map[string]string{
		"spec.audiance":                       kmsAge + "audiance: shop",
		"spec.kms.vault":                      "kms: {vault: {}, age: {recipients: [" + recipient1 + "]}}",
		"spec.kms.age.recipient":              "kms: {age: {recipients: [" + recipient1 + "], recipient: x}}",
		"spec.kms.age.identitySecret.nmae":    "kms: {age: {recipients: [" + recipient1 + "], identitySecret: {name: a, nmae: a}}}",
		"spec.kms.aws.endpoint":               "kms: {aws: {keyID: alias/a, endpoint: \"http://kms\"}}",
		"spec.rotation.intervall":             kmsAge + "rotation: {intervall: 24h}",
		"spec.principal.requird":              kmsAge + "principal: {requird: false}",
		"spec.principal.jwt.isuer":            kmsAge + principalJWT + "isuer: x}}",
		"spec.principal.header.trustedProxys": kmsAge + "principal: {source: Header, header: {name: X-User, trustedProxys: [10.0.0.0/8]}}",
		"spec.serviceAccounts":                kmsAge + "serviceAccounts: [a]",
	}
	ns, c := env.Namespace(t), strict(env.Client)
	for field, spec := range cases {
		t.Run(field, func(t *testing.T) {
			err := c.Create(t.Context(), keyFromYAML(t, ns.Name, "typo", spec))
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%v, want a refusal that names %s", err, field)
			}
		})
	}
}

func TestRequestStateKeyDefaults(t *testing.T) {
	ctx, ns := t.Context(), env.Namespace(t)
	if err := env.Client.Create(ctx, keyFromYAML(t, ns.Name, "defaults", kmsAge)); err != nil {
		t.Fatal(err)
	}
	key := &v1alpha1.RequestStateKey{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "defaults"}, key); err != nil {
		t.Fatal(err)
	}
	spec := key.Spec
	if spec.Audience != nil {
		t.Errorf("audience %q, want none: its default depends on the object's name", *spec.Audience)
	}
	for name, got := range map[string][2]any{
		"ttl":                 {spec.TTL.Duration, 10 * time.Minute},
		"clockSkew":           {spec.ClockSkew.Duration, time.Minute},
		"rotation.interval":   {spec.Rotation.Interval.Duration, 720 * time.Hour},
		"rotation.paused":     {spec.Rotation.Paused, false},
		"rotation.stallAfter": {spec.Rotation.StallAfter.Duration, 15 * time.Minute},
		"principal.source":    {spec.Principal.Source, v1alpha1.PrincipalNone},
		"principal.required":  {spec.Principal.Required != nil && *spec.Principal.Required, true},
		"serviceAccountNames": {fmt.Sprint(spec.ServiceAccountNames), "[default]"},
		"revokedKeyIDs":       {len(spec.RevokedKeyIDs), 0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s defaults to %v, want %v", name, got[0], got[1])
		}
	}

	nested := keyFromYAML(t, ns.Name, "nested", strings.TrimPrefix(jwt(""), kmsAge)+"\nrotation: {paused: true}\nkms: {age: {recipients: ["+recipient1+"], identitySecret: {name: a}}}")
	if err := env.Client.Create(ctx, nested); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(nested), key); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(key.Spec.Principal.JWT.Claims); got != "[iss sub client_id]" {
		t.Errorf("principal.jwt.claims defaults to %s", got)
	}
	if got := key.Spec.KMS.Age.IdentitySecret.Key; got != v1alpha1.DefaultIdentityKey {
		t.Errorf("kms.age.identitySecret.key defaults to %q", got)
	}
	if key.Spec.Rotation.Interval.Duration != 720*time.Hour {
		t.Errorf("rotation.interval beside another field of rotation defaults to %v", key.Spec.Rotation.Interval)
	}
}

func TestRequestStateKeyAccepted(t *testing.T) {
	cases := []struct{ name, spec string }{
		{"bounds from below", kmsAge + "ttl: 10s\nclockSkew: 0s\nrotation: {interval: 20s, stallAfter: 1s}"},
		{"bounds from above", kmsAge + "ttl: 24h\nclockSkew: 5m\nrotation: {interval: 87600h, stallAfter: 168h}"},
		{"interval exactly twice", kmsAge + "rotation: {interval: 22m}"},
		{"only on request", kmsAge + "ttl: 24h\nrotation: {interval: 0s}"},
		{"mixed units", kmsAge + "ttl: 1h30m15s"},
		{"as Go writes it", kmsAge + "ttl: 10m0s\nrotation: {interval: 720h0m0s}"},
		{"audience of 253", kmsAge + "audience: " + strings.Repeat("a", 253)},
		{"two recipients", recipients(recipient1, recipient2)},
		{"hybrid recipients", recipients(hybridRecipient, hybridRecipient[:1950])},
		{"aws alias", "kms: {aws: {keyID: alias/team/deployer}}"},
		{"aws key id with region", "kms: {aws: {keyID: 1234abcd-12ab-34cd-56ef-1234567890ab, region: eu-west-1}}"},
		{"aws multi-region key", "kms: {aws: {keyID: \"arn:aws:kms:us-east-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab\", region: us-east-1}}"},
		{"aws alias ARN in another partition", "kms: {aws: {keyID: \"arn:aws-us-gov:kms:us-gov-west-1:111122223333:alias/a\"}}"},
		{"64 revoked ids", kmsAge + "revokedKeyIDs: " + numbered(64, `"00112233aabbcc%02x"`)},
		{"jwt whole", jwt(`, jwksURI: "https://login.example.com/keys", caBundle: ` + strings.Repeat("QUFB", 16384) + ", claims: [iss, sub]")},
		{"principal not required", kmsAge + "principal: {source: JWT, required: false, jwt: {issuer: \"https://i.example:8443/a\", audiences: [a]}}"},
		{"header whole", header("X-Forwarded-User", `[10.0.0.0/8, "fd00::/8"]`)},
		{"service accounts", kmsAge + "serviceAccountNames: [default, mcp.server-1]"},
		{"name of 63", kmsAge},
	}
	ns, c := env.Namespace(t), strict(env.Client)
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			name := fmt.Sprintf("accepted-%d", i)
			if tc.name == "name of 63" {
				name = strings.Repeat("a", v1alpha1.MaxKeyNameLength)
			}
			if err := c.Create(t.Context(), keyFromYAML(t, ns.Name, name, tc.spec)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRequestStateKeyName(t *testing.T) {
	ns := env.Namespace(t)
	err := env.Client.Create(t.Context(), keyFromYAML(t, ns.Name, strings.Repeat("a", v1alpha1.MaxKeyNameLength+1), kmsAge))
	wantRefusal(t, err, "<nil>", "metadata.name must be at most 63 characters, since pods name the key in a label: choose a shorter name")
}

func TestAudienceIsImmutable(t *testing.T) {
	const changed = "audience is immutable, since every token in flight is bound to it: create another RequestStateKey for another audience"
	const setOrUnset = "audience is immutable, also between unset and set, since every token in flight is bound to it: create another RequestStateKey for another audience"
	cases := []struct{ name, before, after, message string }{
		{"changed", "audience: a\n", "audience: b\n", changed},
		{"set", "", "audience: a\n", setOrUnset},
		{"unset", "audience: a\n", "", setOrUnset},
		{"kept", "audience: a\n", "audience: a\n", ""},
		{"kept unset", "", "", ""},
	}
	ns := env.Namespace(t)
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			before := keyFromYAML(t, ns.Name, fmt.Sprintf("audience-%d", i), tc.before+kmsAge)
			if err := env.Client.Create(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			after := keyFromYAML(t, ns.Name, before.GetName(), tc.after+kmsAge+"ttl: 5m")
			after.SetResourceVersion(before.GetResourceVersion())
			err := env.Client.Update(t.Context(), after)
			if tc.message == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantRefusal(t, err, "spec.audience", tc.message)
		})
	}
}

// TestLargestStatusIsAccepted stores a ring at every bound of the schema that a real one can reach: etcd takes 1.5 MiB.
func TestLargestStatusIsAccepted(t *testing.T) {
	ctx, ns := t.Context(), env.Namespace(t)
	all := make([]string, 16)
	for i := range all {
		all[i] = fmt.Sprintf("%s%02d", hybridRecipient[:len(hybridRecipient)-2], i)
	}
	created := keyFromYAML(t, ns.Name, "large", recipients(all...))
	if err := env.Client.Create(ctx, created); err != nil {
		t.Fatal(err)
	}
	key := &v1alpha1.RequestStateKey{}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(created), key); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	ring := &v1alpha1.Keyring{
		Format: v1alpha1.KeyringFormat, Epoch: "0123456789abcdef", Generation: 1, MintingKeyID: "0000000000000000",
		Settings: v1alpha1.KeyringSettings{Audience: ns.Name + "/large", TTL: *key.Spec.TTL, ClockSkew: *key.Spec.ClockSkew, Principal: key.Spec.Principal},
	}
	for i := range v1alpha1.MaxRingKeys {
		ring.Keys = append(ring.Keys, v1alpha1.KeyringKey{
			// One stanza of a post-quantum recipient takes about 1.7 kB.
			ID: fmt.Sprintf("%016x", i), WrappedKey: make([]byte, 16*1700), KMS: key.Spec.KMS, CreatedAt: now, MintingSince: &now,
			MaxTTL: *key.Spec.TTL, MaxClockSkew: *key.Spec.ClockSkew, AckedAt: &now, RetireAt: &now,
		})
	}
	key.Status.Keyring = ring
	if err := env.Client.Status().Update(ctx, key); err != nil {
		t.Fatalf("a ring of %d keys for %d recipients each: %v", len(ring.Keys), len(all), err)
	}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(created), key); err != nil {
		t.Fatal(err)
	}
	if got := len(key.Status.Keyring.Keys); got != v1alpha1.MaxRingKeys {
		t.Errorf("%d keys came back", got)
	}

	key.Status.Keyring.Keys = append(key.Status.Keyring.Keys, v1alpha1.KeyringKey{ID: "ffffffffffffffff", WrappedKey: []byte{1}, KMS: key.Spec.KMS, CreatedAt: now})
	err := env.Client.Status().Update(ctx, key)
	wantRefusal(t, err, "status.keyring.keys", "must have at most 16 items")
}

func TestStatusIsASubresource(t *testing.T) {
	ctx, ns := t.Context(), env.Namespace(t)
	object := keyFromYAML(t, ns.Name, "status", kmsAge)
	object.Object["status"] = map[string]any{"phase": "Stable"}
	if err := env.Client.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	key := &v1alpha1.RequestStateKey{}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(object), key); err != nil {
		t.Fatal(err)
	}
	if key.Status.Phase != "" {
		t.Errorf("a status written with the object was kept: %s", key.Status.Phase)
	}
	stale := key.DeepCopy()
	key.Status.Phase = v1alpha1.PhasePending
	if err := env.Client.Status().Update(ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Status().Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("an update from an old resourceVersion: %v, want a conflict", err)
	}
}

// TestCRDsFitClientSideApply keeps each CRD well below the 256 KiB of the annotation that client-side apply writes.
func TestCRDsFitClientSideApply(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) != 2 {
		t.Fatalf("CRDs: %v, %v; want two", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 200<<10 {
			t.Errorf("%s has %d bytes, want at most 200 KiB", file, info.Size())
		}
	}
}
