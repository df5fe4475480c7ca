import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Installation } from '../e2e/installation.ts'
import { guises } from '../e2e/scan.ts'
import { type SeenCall, shownIn } from './registry.ts'

/** What all secrets of a test have in common: whoever looks for this finds every one of them. */
export const secretCore = randomBytes(18).toString('hex')

/** A secret that differs from all others. */
export const secretOf = (name: string): string => `${name}-${secretCore}`

/** Stores these, and binds them: what `credentials.yaml` says of each place, with the secret's name. */
export async function giveCredentials(
  it: Installation,
  bound: readonly (Readonly<Record<string, unknown>> & { readonly host: string; readonly secret: string })[],
): Promise<void> {
  for (const name of new Set(bound.map(({ secret }) => secret))) {
    const { code, err } = await it.cli(['secret', 'add', name], { input: `${secretOf(name)}\n` })
    if (code !== 0) throw new Error(err)
  }
  writeFileSync(join(it.state, 'config/credentials.yaml'), `${JSON.stringify({ credentials: bound })}\n`)
}

/** The secrets that a server was shown at a host, each once, in the order in which they came; null for calls that showed none. */
export const shownAt = (seen: readonly SeenCall[], host: string): (string | null)[] => [
  ...new Set(seen.filter((call) => call.host === host).map(({ authorization }) => shownIn(authorization))),
]

/** Whether a text holds one of the secrets, in any guise. */
export const holdsSecret = (text: string): boolean => guises(secretCore).some((guise) => text.includes(guise))
