import { apiAddress, type ApiName } from '@anchorhold/protocol/api/addresses'
import { api } from '@anchorhold/protocol/api/api'
import type { Route } from '@anchorhold/protocol/api/route'
import type { ChildProcess } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { createToken } from '../../app/people/access.ts'
import { createSession } from '../../app/sessions/create-session.ts'
import { owner } from '../../app/test-parts.ts'
import { type TestDoor, testDoor } from './test-door.ts'

const canary = 'canary-of-a-shell'
/** What a shell, git or ssh would make something of, where one came by it. */
const hostile = [
  `$(touch ${canary})`,
  `\`touch ${canary}\``,
  `x; touch ${canary};`,
  `x\ntouch ${canary}\n`,
  `' "; touch ${canary} #`,
  `--upload-pack=touch ${canary}`,
  `-oProxyCommand=touch ${canary}`,
  `ext::sh -c touch% ${canary}`,
] as const

let door: TestDoor
let session: string
let folder: string
/** Looked at afterwards: a process is told before it knows its own words. */
const processes: ChildProcess[] = []
const note = (message: unknown) => void processes.push((message as { process: ChildProcess }).process)
beforeAll(async () => {
  door = await testDoor()
  ;({ id: session } = await createSession(door.parts, owner, {}))
  folder = mkdtempSync(join(tmpdir(), 'ah-hostile-'))
  subscribe('child_process', note)
})
afterAll(async () => {
  unsubscribe('child_process', note)
  rmSync(folder, { recursive: true, force: true })
  await door[Symbol.asyncDispose]()
})

type Json = { readonly [key: string]: unknown } & {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Json>>
  readonly required?: readonly string[]
  readonly anyOf?: readonly Json[]
  readonly oneOf?: readonly Json[]
  readonly items?: Json
}
const jsonOf = (schema: z.ZodType): Json =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as Json

/** The plainest value that a schema may take. */
function plain(schema: Json): unknown {
  if (schema['const'] !== undefined) return schema['const']
  if (Array.isArray(schema['enum'])) return (schema['enum'] as readonly unknown[])[0]
  const [choice] = schema.anyOf ?? schema.oneOf ?? []
  if (choice !== undefined) return plain(choice)
  switch (schema.type) {
    case 'object':
      return Object.fromEntries((schema.required ?? []).map((name) => [name, plain(schema.properties?.[name] ?? {})]))
    case 'array':
      return schema['minItems'] === undefined ? [] : [plain(schema.items ?? {})]
    case 'string':
      return typeof schema['pattern'] === 'string' && schema['pattern'].startsWith('^ses_')
        ? session
        : 'a'.repeat(Number(schema['minLength'] ?? 1))
    case 'boolean':
      return true
    case 'integer':
    case 'number':
      return Number(schema['minimum'] ?? 1)
    default:
      return 'a'
  }
}

/** The plainest values, each with one text in it exchanged for `bad`. */
function* exchanged(schema: Json, bad: string, depth = 0): Generator<unknown> {
  if (depth > 5) return
  for (const choice of schema.anyOf ?? schema.oneOf ?? []) yield* exchanged(choice, bad, depth + 1)
  if (schema.type === 'string' && schema['enum'] === undefined && schema['const'] === undefined) yield bad
  if (schema.type === 'array' && schema.items !== undefined)
    for (const one of exchanged(schema.items, bad, depth + 1)) yield [one]
  for (const [name, one] of Object.entries(schema.properties ?? {}))
    for (const value of exchanged(one, bad, depth + 1)) yield { ...(plain(schema) as object), [name]: value }
}

const routes = (Object.entries(api) as [ApiName, Route][]).filter(([, { open }]) => open !== true)
/** They end what the others need, or wait for what never comes. */
const apart: ReadonlySet<string> = new Set(['shutdown', 'panic', 'logout', 'revokeOthers', 'rotateKey', 'deleteSession'])

type Values = Readonly<Record<string, string>>
type Parts = { readonly params?: Values; readonly query?: Values; readonly body?: unknown }
async function send(name: ApiName, { params = {}, query = {}, body }: Parts): Promise<number> {
  const { path, method } = apiAddress(name)
  const to = path.replace(/:(\w+)/g, (_, key: string) => encodeURIComponent(params[key] ?? session))
  const token = createToken(door.parts, owner, { name: 'try' }).secret
  const asked = { method, token, ...(body === undefined ? {} : { body }) }
  const { status } = await door.ask(`${to}?${new URLSearchParams(query).toString()}`, asked)
  return status
}

test('no text that the API takes becomes words of a program, wherever it is put', { timeout: 300_000 }, async () => {
  // Folders of the host may be called so.
  for (const bad of hostile) mkdirSync(join(folder, bad), { recursive: true })
  const failed: string[] = []
  let taken = 0
  let tried = 0
  for (const [name, route] of routes) {
    if (apart.has(name)) continue
    for (const where of ['params', 'query', 'body'] as const) {
      const schema = route[where]
      if (schema === undefined) continue
      for (const text of hostile.flatMap((one) => (where === 'body' ? [one, join(folder, one)] : [one]))) {
        for (const value of exchanged(jsonOf(schema), text)) {
          const others = Object.fromEntries(
            (['params', 'query', 'body'] as const).flatMap((one) =>
              one !== where && route[one] !== undefined ? [[one, plain(jsonOf(route[one]))]] : [],
            ),
          )
          tried++
          const status = await send(name, { ...others, [where]: value })
          if (status < 400) taken++
          if (status >= 500 && status !== 503)
            failed.push(`${name} ${status} ${JSON.stringify(value)} ${door.logged.at(-1) ?? ''}`)
        }
      }
    }
  }
  expect(failed.slice(0, 5)).toEqual([])
  expect([tried > 2000, taken > 200], `${tried} tried, ${taken} taken`).toEqual([true, true])
  for (const { spawnfile, spawnargs } of processes) {
    for (const [at, word] of (spawnargs ?? []).entries()) {
      if (!word.includes(canary)) continue
      // A path of its own, from the root on, is neither an option nor a script.
      expect([spawnfile, spawnargs[at - 1], word]).toEqual([
        spawnfile,
        expect.not.stringMatching(/^-\w*c$/),
        expect.stringMatching(/^\//),
      ])
    }
  }
  for (const place of [process.cwd(), folder, tmpdir(), '/']) expect(existsSync(join(place, canary))).toBe(false)
})
