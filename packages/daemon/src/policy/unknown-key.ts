import { policySchemas } from './policy-schema.ts'

/** A key that is not known where it stands, and what may have been meant. */
export function unknownKey(path: readonly string[], key: string, { nested }: { readonly nested: boolean }): string {
  if (nested && path.length === 0 && key in policySchemas.file.shape)
    return `"${key}" stands beside "mounts": write it below mounts./claude${key === 'budget' ? '' : '.policy'}, or take "mounts" away`
  const near = path.length === 0 && !nested ? closest(key) : null
  return `Unknown key "${[...path, key].join('.')}"${near === null ? '' : `: did you mean "${near}"?`}`
}

/** The key that somebody may have meant. */
function closest(key: string): string | null {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[^a-z]/g, '')
  const same = Object.keys(policySchemas.file.shape).find(
    (known) => plain(known) === plain(key) || plain(known) === `${plain(key)}s` || `${plain(known)}s` === plain(key),
  )
  return same ?? Object.keys(policySchemas.file.shape).find((known) => distance(plain(known), plain(key)) <= 2) ?? null
}

function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return 3
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    row = next
  }
  return row[b.length]!
}
