import { readFileSync } from 'node:fs'

/** Names the time since the machine was last started: for as long as it is the same, what any process has written is there, synced or not. Null
 *  where the system does not say. */
export function bootId(): string | null {
  try {
    const id = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
    return /^[0-9a-f-]{36}$/.test(id) ? id : null
  } catch {
    return null
  }
}
