import { sizeWords } from '../size-words.ts'

/** What a push asks a git server to do, read from the beginning of its request
 *  (https://git-scm.com/docs/pack-protocol#_reference_update_request_and_packfile_transfer). */
export type Push = {
  readonly commands: readonly RefUpdate[]
  readonly capabilities: readonly string[]
  /** How many bytes of the request were read for this. */
  readonly length: number
}

export type RefUpdate = { readonly ref: string; readonly kind: 'create' | 'update' | 'delete' }

/** `more` when the list of commands has not ended yet; `refused` for what is no push that is read in one way only. */
export type PushReading = { readonly push: Push } | { readonly more: true } | { readonly refused: string }

/** So much of a request is read for its commands. */
export const pushBytesMax = 256 * 1024
const refBytesMax = 1024

export function readPush(bytes: Uint8Array): PushReading {
  const commands: RefUpdate[] = []
  let capabilities: readonly string[] | null = null
  for (let at = 0; ;) {
    if (bytes.length - at < 4) return unended(bytes)
    const size = lengthOf(bytes.subarray(at, at + 4))
    if (size === null || (size > 0 && size < 5)) return refused('a line says no length that there is')
    if (size === 0) return { push: { commands, capabilities: capabilities ?? [], length: at + 4 } }
    if (bytes.length - at < size) return unended(bytes)
    const line = text(bytes.subarray(at + 4, at + size))
    at += size
    if (line === null) return refused('a name is not in UTF-8')
    if (/^shallow ([0-9a-f]{40}|[0-9a-f]{64})\n?$/.test(line) && capabilities === null) continue
    if (line.startsWith('push-cert')) return refused('signed pushes are not carried')
    const [command = '', listed, ...rest] = line.split('\0')
    // Capabilities follow the first command, and no other.
    if (rest.length > 0 || (listed === undefined) !== (capabilities !== null))
      return refused('a command is not written as git writes it')
    capabilities ??= (listed ?? '').trim().split(/\s+/)
    const found = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([^\n]+)\n?$/.exec(command)
    if (found === null || found[1]!.length !== found[2]!.length) return refused('a command is not written as git writes it')
    const [, before = '', after = '', ref = ''] = found
    if (!isRefName(ref)) return refused('the name of a ref is none that git takes')
    if (commands.some((one) => one.ref === ref)) return refused('a ref is named twice')
    commands.push({ ref, kind: /^0+$/.test(after) ? 'delete' : /^0+$/.test(before) ? 'create' : 'update' })
  }
}

const refused = (why: string): PushReading => ({ refused: why })
const unended = ({ length }: Uint8Array): PushReading =>
  length >= pushBytesMax ? refused(`its list of refs is longer than ${sizeWords(pushBytesMax)}`) : { more: true }

function lengthOf(digits: Uint8Array): number | null {
  const hex = String.fromCharCode(...digits)
  return /^[0-9a-fA-F]{4}$/.test(hex) ? Number.parseInt(hex, 16) : null
}

function text(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}

/** See git-check-ref-format(1). */
function isRefName(ref: string): boolean {
  if (ref.length > refBytesMax || !/^refs\/[^/]+\/./.test(ref)) return false
  // oxlint-disable-next-line no-control-regex
  if (/[\0-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|\.$|\/$/.test(ref)) return false
  return ref.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'))
}
