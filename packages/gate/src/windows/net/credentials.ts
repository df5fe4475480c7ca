import { credentialsOf, type Credentials } from '@anchorhold/core/net/credentials'
import { foreignCredential } from '@anchorhold/core/net/foreign-credentials'
import type { Target } from '@anchorhold/core/net/target'
import type { BoundCredential } from '@anchorhold/protocol/credentials'
import type { NetTerms } from '@anchorhold/protocol/gate-commands'
import { scrubberOf, type Scrubber } from '../scrub.ts'

/** A call as a cell makes it. */
export type Call = {
  readonly target: Target
  readonly method: string
  readonly path: string
  readonly rawHeaders: readonly string[]
  /** Over TLS that ends here, to a host whose certificate is verified. */
  readonly secure: boolean
}

/** A call as it is sent: what was put in, and what takes it out of the answer. */
export type Filled = {
  readonly path: string
  readonly rawHeaders: readonly string[]
  /** The names of the secrets that are in it. */
  readonly used: readonly string[]
  /** For every answer of a host that has been sent a secret, or may have been: it may say it wherever it likes. */
  readonly scrub: Scrubber | null
}

/** Why a call does not go on, and what to send in its place where asking for it would not help. */
export type NotFilled = { readonly refused: string; readonly instead?: string }

/** Puts secrets in the place of what a cell has instead.
 *  Invariant: a secret is in a call only when one of the owner's credentials is for that very host, method and path, and over TLS. To a
 *  host of the owner's credentials goes no other credential. */
export type Fill = {
  speaksOf(target: Target): boolean
  putInto(call: Call): Filled | NotFilled
}

/** @param onlyOurs whether a rule keeps the cell's own credentials from a place */
export function fillBy(terms: () => NetTerms, open: (box: string) => string, onlyOurs: (target: Target) => boolean): Fill {
  let known: Known | null = null
  /** A call is looked at again just before it goes on, and rarely is anything else in force by then. */
  const looked = new WeakMap<
    Call,
    { readonly by: Known; readonly onlyOurs: boolean; readonly said: ReturnType<Fill['putInto']> }
  >()
  /** Opened once: a box does not change. */
  const opened = new Map<string, string>()
  const now = () => {
    const given = terms()
    if (known?.terms !== given) {
      known = {
        ...{ terms: given, credentials: credentialsOf(given.credentials), models: new Set(given.model_hosts) },
        scrubbers: new Map(),
      }
      for (const box of opened.keys()) if (!given.credentials.some((one) => one.box === box)) opened.delete(box)
    }
    return known
  }
  const secretOf = ({ box }: BoundCredential): string => {
    if (box === null) throw new TypeError('A call that has no secret is refused before')
    const found = opened.get(box) ?? open(box)
    opened.set(box, found)
    return found
  }

  /** Made once for each host: it looks for a secret in many guises. */
  function scrubberFor(host: string, bound: readonly BoundCredential[], { scrubbers }: Known): Scrubber {
    const made = scrubbers.get(host) ?? scrubberOf(bound.flatMap((one) => [secretOf(one), ...basicOf(one, secretOf(one))]))
    scrubbers.set(host, made)
    return made
  }

  function look(call: Call, known: Known, isOnlyOurs: boolean): ReturnType<Fill['putInto']> {
    const { credentials, models } = known
    const bound = call.secure ? credentials.boundTo(call) : []
    const placeholders = credentials.placeholdersIn(textOf(call))
    const stray = placeholders.find((shape) => !bound.some(({ placeholder }) => placeholder === shape))
    if (stray !== undefined)
      return { refused: `"${stray.slice(0, 100)}" stands for a secret that is not for this endpoint, and goes nowhere` }
    const gone = bound.find(({ box }) => box === null)
    if (gone !== undefined)
      return {
        refused: `The secret "${gone.secret}" is for this endpoint, and is not stored: anchorhold secret add ${gone.secret}`,
      }
    let filled: Pick<Filled, 'path' | 'rawHeaders'> = call
    const used: BoundCredential[] = []
    for (const one of bound) {
      const next = putIn(filled, one, secretOf)
      if (next === null) continue
      filled = next
      used.push(one)
    }
    const foreign = foreignKey(call, models.has(call.target.host), used.length > 0)
    if (foreign !== null) return { refused: foreign }
    const [misplaced] = filled === call ? placeholders : credentials.placeholdersIn(textOf(filled))
    if (misplaced !== undefined)
      return {
        refused: `"${misplaced.slice(0, 100)}" stands for a secret that does not belong where it stands, and goes nowhere`,
      }
    if (isOnlyOurs || credentials.isBound(call.target.host)) {
      const brought = foreignCredential(filled, {
        headers: used.flatMap(({ put }) => (put.as === 'query' ? [] : [put.as === 'basic' ? 'authorization' : put.name])),
        parameters: used.flatMap(({ put }) => (put.as === 'query' ? [put.name] : [])),
      })
      if (brought !== null)
        return {
          refused: `It carries a credential of the cell's own in ${brought}, and what goes to "${call.target.host}" carries only the owner's`,
          instead: `Send it without ${brought}, or with the placeholder of a secret that is for this endpoint: the secret is put in on the way out`,
        }
    }
    const ofHost = credentials.ofHost(call.target.host)
    if (ofHost.length === 0) return { path: call.path, rawHeaders: call.rawHeaders, used: [], scrub: null }
    const rawHeaders = without(filled.rawHeaders, (name) => hidesAnswer.has(name))
    return {
      path: filled.path,
      rawHeaders: [...rawHeaders, 'accept-encoding', 'identity'],
      used: [...new Set(used.map(({ secret }) => secret))],
      scrub: scrubberFor(call.target.host, ofHost, known),
    }
  }

  return {
    // What is sent to a model's provider is looked at, whatever a rule says: somebody else's key would take data out to them.
    speaksOf: (target) => now().credentials.speaksOf(target) || now().models.has(target.host),
    putInto(call) {
      const by = now()
      const isOnlyOurs = onlyOurs(call.target)
      const before = looked.get(call)
      if (before?.by === by && before.onlyOurs === isOnlyOurs) return before.said
      const said = look(call, by, isOnlyOurs)
      looked.set(call, { by, onlyOurs: isOnlyOurs, said })
      return said
    },
  }
}

/** What is in force. */
type Known = {
  readonly terms: NetTerms
  readonly credentials: Credentials
  readonly models: ReadonlySet<string>
  readonly scrubbers: Map<string, Scrubber>
}

/** All of a call in which a placeholder could be read. */
const textOf = ({ path, rawHeaders }: Pick<Call, 'path' | 'rawHeaders'>): string =>
  [path, safeDecode(path), ...rawHeaders, ...basicsOf(rawHeaders)].join('\n')

/** What would have an answer come packed, or in pieces that a secret cannot be found in. */
const hidesAnswer: ReadonlySet<string> = new Set(['accept-encoding', 'sec-websocket-extensions', 'range', 'if-range'])

/** The same call with the secret in it; null where the cell has sent something of its own in that place. */
function putIn(
  { path, rawHeaders }: Pick<Filled, 'path' | 'rawHeaders'>,
  one: BoundCredential,
  secretOf: (one: BoundCredential) => string,
): Pick<Filled, 'path' | 'rawHeaders'> | null {
  const { put, placeholder } = one
  if (put.as === 'query') {
    const at = path.indexOf('?')
    const [bare, query] = at === -1 ? [path, []] : [path.slice(0, at), path.slice(at + 1).split('&')]
    const isIts = (pair: string) => safeDecode(pair.replace(/=.*/s, '')) === put.name
    const made = (value: string) => `${encodeURIComponent(put.name)}=${encodeURIComponent(value)}`
    const own = query.filter(isIts)
    if (own.length === 0) return { path: `${bare}?${[...query, made(secretOf(one))].join('&')}`, rawHeaders }
    // Where the server may read it, and nowhere else: who may write elsewhere in a path may have it kept in plain sight.
    const [first] = own.map((pair) => safeDecode(pair.replace(/^[^=]*=?/s, '')))
    if (own.length > 1 || first !== placeholder) return null
    const filled = made(secretOf(one))
    return { path: `${bare}?${query.map((pair) => (isIts(pair) ? filled : pair)).join('&')}`, rawHeaders }
  }
  const header = put.as === 'basic' ? 'authorization' : put.name.toLowerCase()
  const value = pairs(rawHeaders).find(([name]) => name.toLowerCase() === header)?.[1]
  const rest = without(rawHeaders, (name) => name === header)
  // Some servers have a client show again what it has just shown (LFS does, for each object): what was struck out then stands for it.
  if (value === undefined || (value.includes('****') && value === struckOut(one, secretOf)))
    return { path, rawHeaders: [...rest, header, madeOf(one, secretOf(one))] }
  if (value.includes(placeholder)) {
    const isFormat = put.as === 'header' && value === replaced(put.format, '{}', placeholder)
    if (!isFormat && !isSchemed(value, placeholder)) return null
    return { path, rawHeaders: [...rest, header, replaced(value, placeholder, secretOf(one))] }
  }
  const parts = basicIn(value)?.split(':') ?? []
  if (!parts.includes(placeholder)) return null
  // The owner's word for the user counts: some servers take a token for one, whatever the password.
  if (put.as === 'basic') return { path, rawHeaders: [...rest, header, madeOf(one, secretOf(one))] }
  if (parts.length !== 2 || !parts.every((part) => part === placeholder || isShortName(part))) return null
  const made = Buffer.from(
    parts.join(':').replaceAll(placeholder, () => secretOf(one)),
    'utf8',
  ).toString('base64')
  return { path, rawHeaders: [...rest, header, `Basic ${made}`] }
}

/** The placeholder alone, or behind one word that says how it is meant. Beside anything else it could hide a credential of the cell's own. */
const isSchemed = (value: string, placeholder: string): boolean =>
  value.endsWith(placeholder) && /^(?:[A-Za-z][A-Za-z-]{0,15} +)?$/.test(value.slice(0, -placeholder.length))
/** Too short for a token of any forge. */
const isShortName = (name: string): boolean => /^[\w.@+-]{0,16}$/.test(name)

/** To the letter: a `$` in a secret is one. */
const replaced = (text: string, part: string, secret: string): string => text.replaceAll(part, () => secret)

/** The header's whole value. */
const madeOf = (one: BoundCredential, secret: string): string =>
  one.put.as === 'header' ? replaced(one.put.format, '{}', secret) : `Basic ${basicOf(one, secret).join('')}`

/** How a cell sees that value when a server echoes it. */
const struckOut = (one: BoundCredential, secretOf: (one: BoundCredential) => string): string =>
  scrubberOf([secretOf(one), ...basicOf(one, secretOf(one))]).text(madeOf(one, secretOf(one)))

const basicOf = ({ put }: BoundCredential, secret: string): string[] =>
  put.as === 'basic' ? [Buffer.from(`${put.user}:${secret}`, 'utf8').toString('base64')] : []

/** Why a call carries a key to a model that is not ours: with somebody else's key, what is sent there is theirs to read. */
function foreignKey({ rawHeaders, path }: Call, isModelHost: boolean, isOurs: boolean): string | null {
  const headers = pairs(rawHeaders).map(([name, value]) => [name.toLowerCase(), value] as const)
  const isAnthropic = headers.some(([name]) => name.startsWith('anthropic-'))
  const isKey = headers.some(
    ([name, value]) =>
      /sk-ant-/i.test(value) ||
      /sk-ant-/i.test(basicIn(value) ?? '') ||
      (name === 'x-api-key' && (isAnthropic || isModelHost)) ||
      (isModelHost && (name === 'authorization' || name === 'cookie')),
  )
  if (/sk-ant-/i.test(safeDecode(path)) || (isKey && !isOurs) || headers.some(([, value]) => /sk-ant-/i.test(value)))
    return 'It carries a key to a model that is not yours: whoever owns it could read what is sent'
  if ((isAnthropic || isModelHost) && !isOurs) return 'Models are called through the model window, and by nothing else'
  return null
}

function basicIn(value: string): string | null {
  const found = /^basic\s+([A-Za-z0-9+/_=-]+)\s*$/i.exec(value)
  return found === null ? null : Buffer.from(found[1]!, 'base64').toString('utf8')
}
const basicsOf = (rawHeaders: readonly string[]): string[] => pairs(rawHeaders).flatMap(([, value]) => basicIn(value) ?? [])

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const pairs = (raw: readonly string[]): [string, string][] =>
  Array.from({ length: raw.length / 2 }, (_, at) => [raw[at * 2]!, raw[at * 2 + 1]!])
const without = (raw: readonly string[], drops: (name: string) => boolean): string[] =>
  pairs(raw).flatMap(([name, value]) => (drops(name.toLowerCase()) ? [] : [name, value]))
