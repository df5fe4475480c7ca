import type { IncomingHttpHeaders } from 'node:http'
import type { ProviderKey } from '../../../../providers/providers.ts'
import { screenBetas } from './screen.ts'

/** Sent with a login of the owner's own, as the CLI does. */
const oauthBeta = 'oauth-2025-04-20'
const version = '2023-06-01'

/** Headers written anew: of what came from inside, only what says how to read the request. */
export function headersOf(
  from: IncomingHttpHeaders,
  key: ProviderKey | null,
  allow: ReadonlySet<string>,
): Readonly<Record<string, string>> {
  const betas = screenBetas(single(from['anthropic-beta']), allow)
  if (key?.auth === 'oauth') betas.push(oauthBeta)
  return {
    'content-type': 'application/json',
    'anthropic-version': plainWord(from['anthropic-version']) ?? version,
    ...(betas.length === 0 ? {} : { 'anthropic-beta': betas.join(',') }),
    accept: from.accept === 'text/event-stream' ? from.accept : 'application/json',
    'accept-encoding': 'identity',
    'user-agent': plainWord(from['user-agent']) ?? 'anchorhold',
    ...keyHeaders(key),
  }
}

/** Of a call of the gate's own. */
export const probeHeaders = (key: ProviderKey | null): Readonly<Record<string, string>> => ({
  'content-type': 'application/json',
  'anthropic-version': version,
  ...(key?.auth === 'oauth' ? { 'anthropic-beta': oauthBeta } : {}),
  ...keyHeaders(key),
})

const keyHeaders = (key: ProviderKey | null): Readonly<Record<string, string>> =>
  key === null ? {} : key.auth === 'api_key' ? { 'x-api-key': key.secret } : { authorization: `Bearer ${key.secret}` }

const single = (header: string | string[] | undefined) => (Array.isArray(header) ? header.join(',') : header)
function plainWord(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^[\w ./:;,()+-]{1,200}$/.test(header) ? header : undefined
}

/** Which sub-agent calls, as the agent's own program says. Code in a cell can say anything here, or nothing: whatever a
 *  sub-agent may spend, the session may not spend more. */
export function agentOf({ 'x-claude-code-agent-id': id }: IncomingHttpHeaders): string | undefined {
  return typeof id === 'string' && /^[\w-]{1,64}$/.test(id) ? id : undefined
}
