import { Failure } from '@anchorhold/protocol/failures'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

/** A file of `packaging/images`: which Debian packages a variant of the image has. */
const Recipe = z.strictObject({
  about: z.string(),
  extends: z
    .string()
    .regex(/^[a-z][a-z0-9]*$/)
    .optional(),
  packages: z.array(z.string().regex(/^[a-z0-9][a-z0-9+.-]+$/)).min(1),
})

/** Raised when images of the same packages come out differently: `furnish` or the way they are built has changed. */
const layout = 2

/** All packages of a variant, those of what it extends included. */
export function readRecipe(recipes: string, variant: string, chain: readonly string[] = []): readonly string[] {
  const path = join(recipes, `${variant}.json`)
  if (!existsSync(path) || chain.includes(variant)) {
    const known = readdirSync(recipes).flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : []))
    throw new Failure('bad_request', `There is no recipe for an image "${variant}"`, { hint: `There are: ${known.join(', ')}` })
  }
  const recipe = Recipe.parse(JSON.parse(readFileSync(path, 'utf8')))
  const below = recipe.extends === undefined ? [] : readRecipe(recipes, recipe.extends, [...chain, variant])
  return [...new Set([...below, ...recipe.packages])].toSorted()
}

/** What an image built from these packages is known by. */
export const recipeDigest = (packages: readonly string[], suite: string): string =>
  digestOf(JSON.stringify({ layout, suite, arch: process.arch, packages }))

export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 12)
