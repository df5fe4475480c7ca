import { Failure } from '@anchorhold/protocol/failures'
import { homedir, userInfo } from 'node:os'
import { resolve } from 'node:path'

/** The home of whoever asks. An empty HOME is one that was not set: it would mean folders at the root of the machine. */
export const homeFolder = (): string => homedir() || userInfo().homedir

/** The whole path of what is named from where this command stands. */
export function fromHere(path: string): string {
  try {
    return resolve(path)
  } catch (cause) {
    throw new Failure('bad_request', `Cannot find "${path}": the folder that you are in is gone`, {
      hint: 'Go to a folder that is there, or name it by its whole path',
      cause,
    })
  }
}
