import { decodeOnce } from '../policy/meaning.ts'

/** Where a call carries a secret of the owner's, by the names of headers and of parameters. */
export type OurPlaces = { readonly headers: readonly string[]; readonly parameters: readonly string[] }

type Call = { readonly path: string; readonly rawHeaders: readonly string[] }

/** Where a call carries a credential that is not the owner's, in words; null where it carries none. With somebody else's credential a
 *  host that is allowed takes data out to somebody else.
 *  Does not stop: a credential in a body, in the path itself, or under a name that says nothing. */
export function foreignCredential({ path, rawHeaders }: Call, ours: OurPlaces): string | null {
  const headers = new Set(ours.headers.map((name) => name.toLowerCase()))
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase()
    if (!headers.has(name) && isCredential(name.replaceAll('_', '-'), rawHeaders[at + 1]!)) return `the header "${name}"`
  }
  const parameters = new Set(ours.parameters.map(plainName))
  for (const pair of queryOf(path)) {
    const [name = '', ...value] = pair.split('=')
    const plain = plainName(name)
    if (!parameters.has(plain) && secretParameters.has(plain) && value.join('=') !== '')
      return `the parameter "${decodeOnce(name)
        .replaceAll(/[^\w.-]/g, '?')
        .slice(0, 100)}" of its query`
  }
  return null
}

function isCredential(name: string, value: string): boolean {
  // Some clients show again what was struck out of an answer: it opens nothing.
  if (/^(?:[A-Za-z]+ +)?\**$/.test(value.trim())) return false
  if (name === 'sec-websocket-protocol') return /bearer|token|api-?key|authorization/i.test(value)
  return secretHeader.test(name)
}

/** Headers by whose names servers know who calls. */
const secretHeader =
  /^(?:cookie2?|(?:.+-)?(?:authorization|token|api-?key|access-key|auth-key|app-key|subscription-key|secret|secret-key|password|passwd|jwt))$/

/** Parameters that servers take for a credential, in small letters and without what stands between words. */
const secretParameters: ReadonlySet<string> = new Set(
  (
    'accesstoken privatetoken apitoken authtoken bearertoken deploytoken idtoken jobtoken oauthtoken personalaccesstoken securitytoken ' +
    'sessiontoken usertoken xamzsecuritytoken token jwt key apikey appkey authkey accesskey accesskeyid awsaccesskeyid ' +
    'subscriptionkey googleaccessid auth authorization credential credentials xamzcredential xgoogcredential signature sig ' +
    'xamzsignature xgoogsignature oauthsignature secret apisecret appsecret clientsecret password passwd pwd pass'
  ).split(' '),
)

/** The pairs of a query, also where a server cuts it at semicolons. */
const queryOf = (path: string): string[] => {
  const at = path.indexOf('?')
  return at === -1 ? [] : path.slice(at + 1).split(/[&;]/)
}

/** However it is written: decoded twice, as some servers do, without brackets, and in small letters. */
const plainName = (name: string): string =>
  decodeOnce(decodeOnce(name.replaceAll('+', ' ')))
    .replace(/\[.*/s, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')
