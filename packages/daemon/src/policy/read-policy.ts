import {
  allowedHost,
  allowedPreset,
  allowedTool,
  askedTool,
  blockedTool,
  isWeaker,
  noSettings,
  type PolicySettings,
} from '@anchorhold/core/policy/effective'
import { presetRules } from '@anchorhold/core/net/presets'
import { printableLine } from '@anchorhold/core/printable'
import { sizeWords } from '@anchorhold/core/size-words'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'
import { type PolicyProblem, Preset, type Rule } from '@anchorhold/protocol/policy'
import { type Document, isMap, isNode, isScalar, LineCounter, parseAllDocuments, visit } from 'yaml'
import type { z } from 'zod'
import { allDenied } from './all-denied.ts'
import { tellContradictions } from './contradictions.ts'
import { issueWords } from '../issue-words.ts'
import { tooDeep } from './too-deep.ts'
import { unknownKey } from './unknown-key.ts'
import { type PolicyFile, policySchemas, type SeedMounts } from './policy-schema.ts'
import { seedRungs } from './seed-names.ts'

/** Reading takes about two seconds for a megabyte, in which the daemon does nothing else; this is some 4,000 rules. */
export const policyBytesMax = 256 * 1024
export const tooLarge = `The file is larger than ${sizeWords(policyBytesMax)}, and is not read: others would have to wait for it`
/** The line in which a file grows too large. */
export const lineOfLimit = (bytes: Buffer): number => bytes.subarray(0, policyBytesMax).filter((byte) => byte === 10).length + 1
/** A file that is wrong in many places is told about the first of them. */
const problemsMax = 50
const hourMs = 60 * 60 * 1000

export type PolicyReading = {
  /** Null when it cannot be used. */
  readonly settings: PolicySettings | null
  readonly problems: readonly PolicyProblem[]
}

type Path = readonly PropertyKey[]
type Position = { readonly line: number; readonly column: number }

/** Reads a policy from its text. It comes from its owner, and may still be anything. */
export function readPolicy(file: string, text: string): PolicyReading {
  const { settings, problems } = readAsItComes(file, text)
  return { settings, problems: problems.toSorted((a, b) => a.line - b.line || a.column - b.column) }
}

function readAsItComes(file: string, text: string): PolicyReading {
  const problems: PolicyProblem[] = []
  const tell = (level: PolicyProblem['level'], { line, column }: Position, message: string) => {
    if (problems.length < problemsMax)
      problems.push({ file, line, column, level, message: printableLine(message).slice(0, 2000) })
  }
  const failed = (): PolicyReading => ({ settings: null, problems })
  if (Buffer.byteLength(text) > policyBytesMax) {
    tell('error', { line: lineOfLimit(Buffer.from(text)), column: 1 }, tooLarge)
    return failed()
  }
  const deep = tooDeep(text)
  if (deep !== null) {
    tell('error', { line: deep, column: 1 }, 'The file is nested too deep')
    return failed()
  }
  const lines = new LineCounter()
  const parsed = parse(text, lines)
  if (typeof parsed === 'string') {
    tell('error', { line: 1, column: 1 }, parsed)
    return failed()
  }
  const [doc, second] = parsed
  const positionOf = (offset: number | undefined): Position => {
    const { line, col } = lines.linePos(offset ?? 0)
    return { line: Math.max(1, line), column: Math.max(1, col) }
  }
  // A file of comments alone says nothing.
  if (doc === undefined) return { settings: noSettings(file), problems }
  for (const { message, pos } of [...doc.errors, ...doc.warnings])
    tell('error', positionOf(pos[0]), message.split('\n')[0]!.replace(/ at line \d+.*$/, ''))
  if (second !== undefined) tell('error', positionOf(second.range[0]), 'There is more than one document in the file')
  visit(doc, {
    // What stands for something else can stand for more than anybody wrote.
    Alias(_, node) {
      tell('error', positionOf(node.range?.[0]), `The alias "*${node.source}" is not taken: write it out`)
    },
    // The parser would look for these too, by comparing each with each.
    Map(_, { items }) {
      const seen = new Set<string>()
      for (const { key } of items) {
        if (!isScalar(key)) continue
        const name = String(key.value)
        if (seen.has(name)) tell('error', positionOf(key.range?.[0]), `The key "${name}" is there twice`)
        seen.add(name)
      }
    },
  })
  if (problems.length > 0) return failed()
  const value = said(doc.toJS())
  const position = (path: Path) => positionOf(offsetOf(doc, path))
  const keyPosition = (path: Path) => positionOf(keyOffset(doc, path))

  const nested = typeof value === 'object' && 'mounts' in (value as object)
  const known: z.ZodSafeParseResult<unknown> = (nested ? policySchemas.mounts : policySchemas.file).safeParse(value)
  if (!known.success) {
    for (const issue of known.error.issues.slice(0, problemsMax)) tellIssue(issue, { position, keyPosition, nested }, tell)
    return failed()
  }
  const base: Path = nested ? ['mounts', '/claude', 'policy'] : []
  const budgetAt: Path = nested ? ['mounts', '/claude', 'budget'] : ['budget']
  const content: PolicyFile = nested ? fromMounts(known.data as SeedMounts) : (known.data as PolicyFile)
  const settings = settingsOf(file, content, {
    position: (path) => position([...base, ...path]),
    budget: (path) => position([...budgetAt, ...path]),
    tell,
    raw: value,
    base,
    budgetAt,
  })
  if (problems.some(({ level }) => level === 'error')) return failed()
  if (!nested || (known.data as SeedMounts).mounts['/claude'].access !== 'disabled') return { settings, problems }
  const { line } = position(['mounts', '/claude', 'access'])
  return { settings: { ...settings, ...allDenied(`${file}:${line}: access: disabled`, line), disabledAt: line }, problems }
}

function parse(text: string, lineCounter: LineCounter): readonly Document.Parsed[] | string {
  try {
    const docs = parseAllDocuments(text, {
      lineCounter,
      uniqueKeys: false,
      merge: false,
      version: '1.2',
      schema: 'core',
      prettyErrors: false,
    })
    return 'empty' in docs ? [] : docs
  } catch (error) {
    return `The file cannot be read: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** A key with nothing behind it says nothing. */
function said(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value ?? {}
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null))
}

/** Where a key stands. */
function keyOffset(doc: Document.Parsed, path: Path): number | undefined {
  const parent: unknown = path.length === 1 ? doc.contents : doc.getIn(path.slice(0, -1), true)
  const pair = isMap(parent)
    ? parent.items.find(({ key }) => isScalar(key) && String(key.value) === String(path.at(-1)))
    : undefined
  return isScalar(pair?.key) ? pair.key.range?.[0] : offsetOf(doc, path)
}

/** Where the value at a path stands; where it is missing, what it would be part of. */
function offsetOf(doc: Document.Parsed, path: Path): number | undefined {
  for (let length = path.length; length >= 0; length--) {
    const node: unknown = length === 0 ? doc.contents : doc.getIn(path.slice(0, length), true)
    if (isNode(node)) return node.range?.[0]
  }
  return undefined
}

type Tell = (level: PolicyProblem['level'], position: Position, message: string) => void

type Positions = {
  readonly position: (path: Path) => Position
  readonly keyPosition: (path: Path) => Position
  readonly nested: boolean
}

function tellIssue(issue: z.core.$ZodIssue, positions: Positions, tell: Tell): void {
  const { position, keyPosition, nested } = positions
  const name = issue.path.map(String).join('.')
  if (issue.code === 'unrecognized_keys') {
    for (const key of issue.keys.slice(0, problemsMax)) {
      tell('error', keyPosition([...issue.path, key]), unknownKey(issue.path.map(String), key, { nested }))
    }
  } else if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    // The reading that came furthest says most.
    const best = issue.errors.toSorted((a, b) => depth(b) - depth(a) || a.length - b.length)[0]!
    if (best.length === 0) tell('error', position(issue.path), `${name}: ${issueWords(issue)}`)
    for (const one of best) tellIssue({ ...one, path: [...issue.path, ...one.path] }, positions, tell)
  } else tell('error', position(issue.path), name === '' ? issueWords(issue) : `${name}: ${issueWords(issue)}`)
}

const depth = (issues: readonly z.core.$ZodIssue[]): number => Math.max(0, ...issues.map(({ path }) => path.length))

/** In the seed an agent is supervised unless its policy says otherwise; who wrote one relied on that. A mount that can only be read
 *  is one where no tool runs. */
function fromMounts({ mounts: { '/claude': mount } }: SeedMounts): PolicyFile {
  const { policy = {}, budget, access } = mount
  return {
    default_autonomy: 'supervised',
    ...policy,
    ...(access === 'read_only' ? { default_autonomy: 'read_only' as const } : {}),
    ...(budget === undefined ? {} : { budget }),
  }
}

type Reader = {
  readonly position: (path: Path) => Position
  readonly budget: (path: Path) => Position
  readonly tell: Tell
  readonly raw: unknown
  readonly base: Path
  readonly budgetAt: Path
}

function settingsOf(file: string, content: PolicyFile, reader: Reader): PolicySettings {
  const { position, tell } = reader
  const listed = (
    key: 'blocked_tools' | 'approval_required_tools' | 'allowed_tools' | 'proxy_allowlist',
    rulesOf: (item: string) => Rule | Rule[],
  ) =>
    (content[key] ?? []).flatMap((item, index) =>
      [rulesOf(item)].flat().map((rule) => ({ rule, line: position([key, index]).line })),
    )
  const rules = [
    ...listed('blocked_tools', blockedTool),
    ...listed('approval_required_tools', askedTool),
    ...listed('allowed_tools', allowedTool),
    ...listed('proxy_allowlist', (item) => {
      const preset = Preset.safeParse(/^preset:(.*)$/.exec(item)?.[1])
      return preset.success ? allowedPreset(preset.data) : allowedHost(item)
    }),
    ...rulesIn(content).map(({ rule, index }) => ({ rule, line: position(['rules', index]).line })),
  ]
  tellContradictions(
    content,
    rulesIn(content).map(({ rule, index }) => ({
      rule,
      position: position(['rules', index]),
      ofPreset: rule.on === 'net' && rule.preset !== undefined,
    })),
    position,
    tell,
  )
  const { budget = {}, breakers = {} } = content
  const top = (ours: keyof PolicyFile, seeds: keyof PolicyFile) => once(content, ours, seeds, position, reader.base, reader)
  const inBudget = (ours: keyof typeof budget, seeds: keyof typeof budget) =>
    once(budget, ours, seeds, reader.budget, reader.budgetAt, reader)
  const seedRung = content.isolation_mode === undefined ? null : seedRungs[content.isolation_mode]
  const ownRung = content.rung ?? null
  return {
    ...noSettings(file),
    rules,
    tools: (content.allowed_tools?.length ?? 0) > 0 ? content.allowed_tools! : null,
    models: { allowed: content.allowed_models ?? [], blocked: content.blocked_models ?? [] },
    providers: content.allowed_providers ?? [],
    autonomy: content.default_autonomy ?? null,
    maxContextTokens: content.max_context_tokens ?? null,
    breakers: Object.fromEntries(Object.entries(breakers).filter(([, value]) => value !== undefined)),
    parkAfterMs: content.park_after_seconds === undefined ? null : content.park_after_seconds * 1000,
    requestMs: content.request_hours === undefined ? null : Math.ceil(content.request_hours * hourMs),
    grantMs: content.grant_hours === undefined ? null : Math.ceil(content.grant_hours * hourMs),
    rung: seedRung === null || (ownRung !== null && isWeaker(seedRung, ownRung)) ? ownRung : seedRung,
    repoFilter: content.repo_filter ?? null,
    network: content.network_mode ?? null,
    maxConcurrent: content.max_concurrent ?? null,
    requireIdempotency: content.require_idempotency ?? false,
    money: {
      perTickNanos: least(top('max_cost_micros_per_tick', 'max_cost_usd_per_tick'), inBudget('per_tick_micros', 'per_tick_usd')),
      perDayNanos: least(top('max_cost_micros_per_day', 'max_cost_usd_per_day'), inBudget('per_day_micros', 'per_day_usd')),
      approvalThresholdNanos: inBudget('approval_threshold_micros', 'approval_threshold_usd'),
      approvers: budget.approvers ?? null,
      defaultMaxCostNanos: top('default_max_cost_micros', 'default_max_cost_usd'),
      requireMaxCost: content.require_max_cost ?? false,
      tickMs: content.tick_seconds === undefined ? null : content.tick_seconds * 1000,
    },
    rates: {
      requestsPerMinute: content.rates?.requests_per_minute ?? null,
      tokensPerMinute: content.rates?.tokens_per_minute ?? null,
    },
  }

  /** A sum under either of its names, and not under both. */
  function once<T extends object>(
    from: T,
    ours: keyof T,
    seeds: keyof T,
    at: (path: Path) => Position,
    base: Path,
    { raw }: Reader,
  ): number | null {
    if (from[ours] !== undefined && from[seeds] !== undefined)
      tell('error', at([ours]), `"${String(ours)}" and "${String(seeds)}" say the same thing: keep one of them`)
    const name = from[ours] === undefined ? seeds : ours
    const nanos = from[name] as number | undefined
    if (nanos === undefined) return null
    const written = [...base, name].reduce<unknown>(
      (value, key) => (value as Readonly<Record<PropertyKey, unknown>> | undefined)?.[key],
      raw,
    )
    if (typeof written === 'number' && nanos > 0 && nanos < 10_000_000)
      tell(
        'warning',
        at([name]),
        `${String(name)}: ${written} micro-USD are ${formatUsd(microsUp(nanos))}; write "$${written}" if dollars are meant`,
      )
    return nanos
  }
}

const least = (a: number | null, b: number | null): number | null => (a === null ? b : b === null ? a : Math.min(a, b))

/** The file's own rules, each with its place in the list: a preset is several. */
const rulesIn = (content: PolicyFile): { readonly rule: Rule; readonly index: number }[] =>
  (content.rules ?? []).flatMap((rule, index) =>
    (!('preset' in rule) ? [rule] : presetRules(rule)).map((one) => ({ rule: one, index })),
  )
