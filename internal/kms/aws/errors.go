package aws

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/requeststate/operator/internal/kms"
)

type verdict struct {
	class  kms.Class
	remedy string
}

const (
	remedyWait       = "AWS KMS does not answer at present: it is tried again"
	remedyNetwork    = "AWS KMS cannot be reached: check the network, the endpoint and DNS; it is tried again"
	remedyAccess     = "the identity of this process may not use the key: allow the action in the key's policy or in IAM, or check the key's ARN and region"
	remedyKeyOnly    = "AWS KMS does not open this wrapped key under this ARN and encryption context: restore it, or revoke the key so that a new one is made"
	remedyExpired    = "AWS KMS does not accept the credentials of this process: they have expired or are not known; check its role, web identity token or profile"
	remedyRole       = "AWS STS gives this process no credentials: check its role's trust policy, its web identity token and AWS_ROLE_ARN"
	remedyConfigured = "AWS KMS refuses the request: check kms.aws and the AWS configuration of this process"
)

// verdicts go by error code, without the "Exception" at its end: SDK types,
// generic errors and local stand-ins of KMS spell some codes with it and some
// without.
var verdicts = map[string]verdict{
	"KeyUnavailable":    {kms.Retry, remedyWait},
	"DependencyTimeout": {kms.Retry, remedyWait},
	"KMSInternal":       {kms.Retry, remedyWait},
	"InternalFailure":   {kms.Retry, remedyWait},
	"InternalError":     {kms.Retry, remedyWait},
	"LimitExceeded":     {kms.Retry, "a quota of AWS KMS is exhausted: it is tried again; raise the quota if it persists"},

	"Disabled":        {kms.Alert, "the AWS KMS key is disabled: enable it, or name another key"},
	"KMSInvalidState": {kms.Alert, "the AWS KMS key is in a state that allows no use: cancel its deletion, import its material, or name another key"},
	"AccessDenied":    {kms.Alert, remedyAccess},
	"NotFound":        {kms.Alert, "the AWS KMS key does not exist: check kms.aws.keyID and kms.aws.region"},
	"InvalidKeyUsage": {kms.Alert, "the AWS KMS key is not a symmetric key for encryption: name one of spec SYMMETRIC_DEFAULT"},

	// The SDK gets new credentials by itself where it can.
	"ExpiredToken":               {kms.Alert, remedyExpired},
	"UnrecognizedClient":         {kms.Alert, remedyExpired},
	"InvalidClientTokenId":       {kms.Alert, remedyExpired},
	"MissingAuthenticationToken": {kms.Alert, remedyExpired},

	"InvalidCiphertext": {kms.KeyOnly, remedyKeyOnly},
	"IncorrectKey":      {kms.KeyOnly, remedyKeyOnly},
}

// failure turns an error of the SDK into a [kms.Error], given when the call began.
func (w *Wrapper) failure(op string, began time.Time, err error) error {
	// A connection that this side has closed while the answer was being read: since the time for
	// an attempt was over, or since the peer had closed it just before.
	if errors.Is(err, net.ErrClosed) && time.Since(began) >= w.attempt {
		err = errors.Join(context.DeadlineExceeded, err)
	}
	return classify(op, err)
}

// classify turns an error of the SDK into a [kms.Error]. The service's message
// goes into the chain only: it names the caller's role and account.
func classify(op string, err error) error {
	var (
		apiErr   smithy.APIError
		sendErr  *smithyhttp.RequestSendError
		response *smithyhttp.ResponseError
		netErr   net.Error
	)
	switch {
	case fromSTS(err) && errors.As(err, &apiErr):
		// The key has not been asked for: this process has no credentials yet.
		if transient(apiErr) || apiErr.ErrorCode() == "IDPCommunicationError" {
			return kms.NewError(kms.Retry, op, kms.CodeCredentials, remedyWait, err)
		}
		return kms.NewError(kms.Alert, op, kms.CodeCredentials, remedyRole, err)
	case errors.As(err, &apiErr):
		code := strings.TrimSuffix(apiErr.ErrorCode(), "Exception")
		v, ok := verdicts[code]
		if !ok {
			v = verdict{kms.Alert, remedyConfigured}
			if transient(apiErr) || (errors.As(err, &response) && response.HTTPStatusCode() >= 500) {
				v = verdict{kms.Retry, remedyWait}
			}
		}
		return kms.NewError(v.class, op, clip(code), v.remedy, err)
	case errors.As(err, &response) && response.HTTPStatusCode() >= 500:
		return kms.NewError(kms.Retry, op, kms.CodeUnexpected, remedyWait, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return kms.NewError(kms.Retry, op, kms.CodeTimeout, remedyNetwork, err)
	case errors.Is(err, context.Canceled):
		return kms.NewError(kms.Retry, op, "Canceled", "the request was given up", err)
	// An answer that ends too early, which the SDK does not ask for again.
	case errors.As(err, &sendErr), netErr != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return kms.NewError(kms.Retry, op, kms.CodeNetwork, remedyNetwork, err)
	default:
		// No credentials, no endpoint for the region, an answer that does not
		// parse: waiting alone mends none of these.
		return kms.NewError(kms.Alert, op, kms.CodeClient,
			"the request could not be made or its answer not be read: check the credentials, region and endpoint of this process", err)
	}
}

// fromSTS tells whether the error is that of getting credentials.
func fromSTS(err error) bool {
	var operation *smithy.OperationError
	for errors.As(err, &operation) {
		if operation.ServiceID == "STS" {
			return true
		}
		err = operation.Err
	}
	return false
}

// transient asks the SDK's own tables, which know the codes of throttling.
func transient(e smithy.APIError) bool {
	code := e.ErrorCode()
	if _, ok := retry.DefaultThrottleErrorCodes[code]; ok {
		return true
	}
	if _, ok := retry.DefaultRetryableErrorCodes[code]; ok {
		return true
	}
	return e.ErrorFault() == smithy.FaultServer
}

// clip makes a code that a service sent fit for a metric's label and a status.
func clip(code string) string {
	const limit = 64
	for _, c := range []byte(code) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return kms.CodeUnexpected
		}
	}
	if code == "" || len(code) > limit {
		return kms.CodeUnexpected
	}
	return code
}
