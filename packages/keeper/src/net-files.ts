import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { netFiles } from './agents/net-route.ts'

/** Puts what Maven and Gradle must find of the net window into a home. A folder that is there already is the agent's, and so is what
 *  should be in it: it is left as it is. Each is made aside and moved in whole, so that nothing is ever written through what an agent
 *  may have put there.
 *  @param aside a folder of the same disk that no cell sees
 *  @param give hands what was made to the cell's user */
export async function putNetFiles(
  home: string,
  aside: string,
  give: (path: string) => Promise<void> = async () => {},
): Promise<void> {
  for (const { folder, name, text } of netFiles) {
    const draft = join(aside, `made${folder}`)
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft, { recursive: true, mode: 0o755 })
    await writeFile(join(draft, name), text, { flag: 'wx', mode: 0o644 })
    await give(draft)
    // It fails where something is there, and follows no link.
    await rename(draft, join(home, folder)).catch(() => rm(draft, { recursive: true, force: true }))
  }
}
