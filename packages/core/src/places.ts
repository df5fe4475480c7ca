import { Failure } from '@anchorhold/protocol/failures'
import { errnoWords } from './errno-words.ts'

/** Where Anchorhold keeps things on this machine. */
export type Places = {
  readonly state: string
  readonly config: string
  /** Whether that is elsewhere than usual, everything under one folder. */
  readonly moved: boolean
}

export type PlacesInput = {
  readonly uid: number
  readonly home: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** `--state DIR`: everything lies under one folder. */
  readonly stateFlag: string | null
}

/** State and config, by the XDG rules for a user and by the file hierarchy standard for root. The key file lies in the
 *  gate's part of the state folder, where the gate alone can read it. */
export function places({ uid, home, env, stateFlag }: PlacesInput): Places {
  const moved = stateFlag ?? nonEmpty(env.ANCHORHOLD_STATE)
  if (moved !== null) return { state: moved, config: `${moved}/config`, moved: true }
  if (uid === 0) return { state: '/var/lib/anchorhold', config: '/etc/anchorhold', moved: false }
  return {
    moved: false,
    state: `${nonEmpty(env.XDG_STATE_HOME) ?? `${home}/.local/state`}/anchorhold`,
    config: `${nonEmpty(env.XDG_CONFIG_HOME) ?? `${home}/.config`}/anchorhold`,
  }
}

const nonEmpty = (value: string | undefined): string | null => (value === undefined || value === '' ? null : value)

/** Files by which programs of the same user find and enter the daemon. */
export const endpointFile = (state: string): string => `${state}/daemon.json`
export const tokenFile = (state: string): string => `${state}/cli.token`

/** A unix socket's path holds 107 bytes on Linux and 103 on macOS; the longest path under the state folder needs 52. */
export const statePathBytesMax = 103 - 52

/** In the gate's folder: that its key is in a keyring, and how that is reached. */
export const keyringNote = 'key-in-keyring.json'

/** Where the rehearsal listens: beside the folder of the gate that calls it, in a folder of its own. */
export const rehearsalFolder = (gateFolder: string): string => `${gateFolder.slice(0, gateFolder.lastIndexOf('/'))}/rehearsal`
export const rehearsalSocket = (folder: string): string => `${folder}/api.sock`

/** A state folder that could not be made. */
export const unmadeState = (state: string, cause: unknown): Failure =>
  new Failure('bad_request', `Cannot make the state folder "${state}": ${errnoWords(cause)}`, {
    hint: 'Name one that you may write to: --state FOLDER, or ANCHORHOLD_STATE',
    cause,
  })
