import type { Action } from '@anchorhold/protocol/actions'
import type { ActionText } from '@anchorhold/protocol/actions'
import { Failure } from '@anchorhold/protocol/failures'
import { parseUsd } from '@anchorhold/protocol/money'
import { toolNamed } from '../agents/tools.ts'
import { hostName, type Meaning, plainMeaning } from './meaning.ts'
import { toolMeaning } from './tool-meaning.ts'

const defaultPorts: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 }

/** An action out of the few words that people describe it by. */
export function actionOf(text: ActionText): Action {
  if ('tool' in text) {
    const { tool, command, path, input = {} } = text
    return {
      kind: 'tool',
      tool,
      input: {
        ...(command === undefined ? {} : { command }),
        ...(path === undefined ? {} : { [toolNamed(tool).path ?? 'file_path']: path }),
        ...input,
      },
    }
  }
  if ('net' in text) return netAction(text.net)
  if ('host' in text) return { kind: 'host', program: text.host, params: text.params ?? {} }
  const needed = text.usd === undefined ? 0 : parseUsd(String(text.usd))
  if (needed === null)
    throw new Failure('bad_request', `"${text.usd}" is not an amount in dollars`, { hint: 'Write it as 0.50 or 5' })
  return {
    kind: 'spend',
    model: text.spend,
    ...(text.provider === undefined ? {} : { provider: text.provider }),
    needed_nanos: needed,
    left_nanos: null,
    budget_nanos: null,
  }
}

/** `GET https://host/path`, `https://host` or `host:port`; what is not said is not known. */
function netAction(text: string): Action {
  const [first = '', second] = text.trim().split(/\s+/)
  const [method, target] = second === undefined ? [null, first] : [first.toUpperCase(), second]
  try {
    const withScheme = /^[a-z]+:\/\//i.test(target)
    const url = new URL(withScheme ? target : `https://${target}`)
    const port = url.port === '' ? (defaultPorts[url.protocol] ?? null) : Number(url.port)
    if (url.hostname === '' || port === null) throw new Error('neither http nor https')
    // As it was written, so that nothing is resolved before it is decided upon.
    const path = /^[a-z]+:\/\/[^/?#]*([/?][^#]*)/i.exec(target)?.[1] ?? '/'
    return { kind: 'net', host: hostName(url.hostname), port, method, path: method === null ? null : path }
  } catch (cause) {
    throw new Failure('bad_request', `Cannot read "${text}" as a call over the network`, {
      hint: 'Write it as: GET https://host/path',
      cause,
    })
  }
}

/** What any action means. */
export const meaningOf = (action: Action, options: { readonly workspace?: string } = {}): Meaning =>
  action.kind === 'tool' ? toolMeaning(action, options) : plainMeaning(action)

/** An action in one line, as people read it. */
export function actionWords(action: Action): string {
  switch (action.kind) {
    case 'tool': {
      const { command } = action.input
      const detail = typeof command === 'string' ? command : JSON.stringify(action.input)
      return `${action.tool} ${detail}`
    }
    case 'net':
      return `net ${action.method === null ? '' : `${action.method} `}${action.host}:${action.port}${action.path ?? ''}`
    case 'host':
      return `host ${action.program} ${Object.entries(action.params)
        .map(([name, value]) => `${name}=${String(value)}`)
        .join(' ')}`.trimEnd()
    case 'spend':
      return `spend ${action.model}`
  }
}
