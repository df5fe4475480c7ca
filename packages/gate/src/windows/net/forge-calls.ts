import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { graphqlPath, isGraphql } from '@anchorhold/core/net/graphql'
import type { Asked } from './exchange.ts'
import { type ForgeTerms, type PushRefusal, screenPush } from './push.ts'
import { readAhead } from './read-ahead.ts'

/** What was found in a request to a forge: how it is answered, or the path that rules judge it by. */
export type Screened = PushRefusal | { readonly judgedAs: string }

/** The forge whose API has a host of its own, by which it is known also where a session has no repository. */
const knownApis = ['api.github.com']
const queryBytesMax = 1024 * 1024

/** Holds a request to a forge to what is in it: a push to its refs, and a call of GraphQL to the change that it makes. Null for the rest. */
export async function screenForge(asked: Asked, request: IncomingMessage, terms: ForgeTerms): Promise<Screened | null> {
  return (await screenPush(asked, request, terms)) ?? screenGraphql(asked, request, terms)
}

async function screenGraphql(
  { target, path }: Asked,
  request: IncomingMessage,
  { forges, slowness }: ForgeTerms,
): Promise<Screened | null> {
  const apis = Object.values(forges).flatMap((one) => (one === null || one.api === null ? [] : [one.api]))
  if (![...knownApis, ...Object.keys(forges), ...apis].includes(target.host) || !isGraphql(path)) return null
  if (request.method !== 'POST' || !/^[^?#;%]*\/graphql$/.test(path)) return refused('it is not a plain POST of "/graphql"')
  if (!/^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i.test(request.headers['content-type'] ?? ''))
    return refused('its body is not said to be JSON')
  if ((request.headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity') return refused('its body is packed')
  const body = await readAhead<{ readonly text: string | null }>(
    request,
    (taken, isAll) => {
      if (taken.length > queryBytesMax) return { text: null }
      return isAll ? { text: isUtf8(taken) ? taken.toString('utf8') : null } : null
    },
    { cut: { text: null }, late: { text: null }, slowness },
  )
  if (body.text === null) return refused(`its body is longer than ${queryBytesMax} bytes, is no UTF-8, or does not come`)
  // Few sessions ask for it, and every gate would start with it.
  const { readGraphql } = await import('@anchorhold/core/net/read-graphql')
  const meant = readGraphql(body.text)
  return 'refused' in meant ? refused(meant.refused) : { judgedAs: graphqlPath(path, meant.mutation) }
}

function refused(why: string): PushRefusal {
  const words = `Cannot tell what this GraphQL request does: ${why}`
  return {
    why: words,
    status: 403,
    type: 'application/json',
    body: JSON.stringify({ message: `Blocked by Anchorhold: ${words}` }),
  }
}
