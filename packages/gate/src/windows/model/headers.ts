import type { IncomingHttpHeaders } from 'node:http'
import { oauthBeta, type Upstream } from '../../providers/providers.ts'
import { screenBetas } from './screen.ts'

/** Headers written anew: of what came from inside, only what says how to read the request. */
export function outgoing(from: IncomingHttpHeaders, upstream: Upstream, allow: ReadonlySet<string>): Record<string, string> {
  const betas = screenBetas(single(from['anthropic-beta']), allow)
  if (upstream.notional) betas.push(oauthBeta)
  return {
    'content-type': 'application/json',
    'anthropic-version': plainWord(from['anthropic-version']) ?? '2023-06-01',
    ...(betas.length === 0 ? {} : { 'anthropic-beta': betas.join(',') }),
    accept: from.accept === 'text/event-stream' ? from.accept : 'application/json',
    'accept-encoding': 'identity',
    'user-agent': plainWord(from['user-agent']) ?? 'anchorhold',
  }
}
const single = (header: string | string[] | undefined) => (Array.isArray(header) ? header.join(',') : header)
function plainWord(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^[\w ./:;,()+-]{1,200}$/.test(header) ? header : undefined
}

/** Which sub-agent calls, as the agent's own program says. Code in a cell can say anything here, or nothing: whatever a
 *  sub-agent may spend, the session may not spend more. */
export function agentOf({ 'x-claude-code-agent-id': id }: IncomingHttpHeaders): string | undefined {
  return typeof id === 'string' && /^[\w-]{1,64}$/.test(id) ? id : undefined
}
