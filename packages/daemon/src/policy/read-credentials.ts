import { issuesInWords } from '../issue-words.ts'
import { connectTarget } from '@anchorhold/core/net/target'
import { SecretName, secretCharsMin, VariableName } from '@anchorhold/protocol/credentials'
import { Failure } from '@anchorhold/protocol/failures'
import { Glob } from '@anchorhold/protocol/policy'
import { existsSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { z } from 'zod'

const Method = z.string().regex(/^[A-Za-z]{1,20}$/)

/** One entry of `credentials.yaml`. */
const Entry = z
  .strictObject({
    host: z.string().min(1).max(253).describe('The one host that it is for'),
    port: z.int().min(1).max(65_535).default(443),
    method: z.union([Method, z.array(Method).min(1)]).optional(),
    path: Glob.optional(),
    header: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,100}$/)
      .optional()
      .describe('The header that it is put into'),
    format: z
      .string()
      .max(200)
      .regex(/^[\x20-\x7e]*\{\}[\x20-\x7e]*$/)
      .optional()
      .describe('What that header says, with {} in its place; `Bearer {}` for Authorization'),
    basic: z
      .string()
      .regex(/^[\x21-\x39\x3b-\x7e]{0,200}$/)
      .optional()
      .describe('The user of a Basic password'),
    query: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,100}$/)
      .optional()
      .describe('The parameter of the query that it is put into'),
    secret: SecretName,
    for: z
      .array(z.string().min(1).max(200))
      .min(1)
      .optional()
      .describe('The users whose sessions it is put in for, by name (default: those of all users)'),
    env: VariableName.optional().describe('The variable that holds the placeholder in a cell'),
    placeholder: z
      .string()
      .regex(/^[A-Za-z0-9_.-]+$/)
      .min(secretCharsMin)
      .max(200)
      .optional(),
  })
  .refine((one) => [one.header, one.basic, one.query].filter((way) => way !== undefined).length === 1, {
    message: 'it must say one of header, basic and query',
  })
  .refine((one) => one.format === undefined || one.header !== undefined, { message: 'format goes with header' })

const CredentialsFile = z.strictObject({ credentials: z.array(Entry).max(1000).default([]) })

export type Credential = {
  readonly host: string
  readonly port: number
  readonly method: readonly string[] | null
  readonly path: string | null
  readonly put:
    | { readonly as: 'header'; readonly name: string; readonly format: string }
    | { readonly as: 'basic'; readonly user: string }
    | { readonly as: 'query'; readonly name: string }
  readonly secret: string
  readonly placeholder: string
  readonly env: string | null
  /** The users whose sessions may use it; null for everybody's. */
  readonly for: readonly string[] | null
}

/** Which secrets are for which endpoints, as the owner has written it. One that cannot be used is refused whole. */
export function readCredentials(path: string): readonly Credential[] {
  if (!existsSync(path)) return []
  const source = readFileSync(path, 'utf8')
  const refuse = (why: string) => new Failure('bad_request', `Cannot use "${path}": ${why}`)
  let raw: unknown
  try {
    raw = source === '' ? {} : (parse(source) ?? {})
  } catch (error) {
    // Its first line says what and where; the others repeat what is written there.
    throw refuse(
      String(error instanceof Error ? error.message : error)
        .split('\n', 1)[0]!
        .replace(/:$/, ''),
    )
  }
  const parsed = CredentialsFile.safeParse(raw)
  if (!parsed.success) throw refuse(issuesInWords(parsed.error))
  return parsed.data.credentials.map((one) => {
    const target = connectTarget(`${one.host}:${one.port}`)
    if ('misnamed' in target) throw refuse(`the host "${one.host}" cannot be one: ${target.misnamed}`)
    return {
      host: target.host,
      port: target.port,
      method: one.method === undefined ? null : [one.method].flat(),
      path: one.path ?? null,
      put: putOf(one),
      secret: one.secret,
      placeholder: one.placeholder ?? `anchorhold-placeholder-${one.secret}`,
      env: one.env ?? null,
      for: one.for ?? null,
    }
  })
}

function putOf({ header, format, basic, query }: z.output<typeof Entry>): Credential['put'] {
  if (basic !== undefined) return { as: 'basic', user: basic }
  if (query !== undefined) return { as: 'query', name: query }
  const name = header ?? ''
  return { as: 'header', name, format: format ?? (name.toLowerCase() === 'authorization' ? 'Bearer {}' : '{}') }
}
