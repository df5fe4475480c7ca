import { Failure } from '@anchorhold/protocol/failures'
import type { Rung } from '@anchorhold/protocol/rungs'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../config.ts'
import type { Folders } from '../../folders.ts'

/** Rungs whose cells can have a root of their own, and the image of those that name none: null for the host's programs. */
const imageByDefault: Partial<Record<Rung, string | null>> = { container: null, gvisor: null, microvm: 'base' }

/** The root folder that a session's cell gets, or null for the host's own programs. Refuses an image that is not there. */
export function rootFor(
  { config, folders }: { readonly config: Pick<Config, 'image'>; readonly folders: Pick<Folders, 'images'> },
  rung: Rung,
  asked: string | undefined,
): string | null {
  const usual = imageByDefault[rung]
  if (usual === undefined) {
    if (asked === undefined) return null
    throw new Failure('bad_request', `Cannot use the image "${asked}": a cell of rung "${rung}" has the host's own programs`, {
      hint: `Choose a rung that runs images: ${Object.keys(imageByDefault).join(', ')}`,
    })
  }
  const name = asked ?? config.image ?? usual
  if (name === null) return null
  try {
    return realpathSync(join(folders.images, name, 'root'))
  } catch {
    throw new Failure('cell_unavailable', `Cannot start a cell of rung "${rung}": there is no image "${name}"`, {
      hint: ['base', 'dev'].includes(name)
        ? `Build it: anchorhold image build --variant ${name}`
        : `anchorhold image ls shows what there is; add yours: anchorhold image add ${name} --from FILE.tar`,
    })
  }
}
