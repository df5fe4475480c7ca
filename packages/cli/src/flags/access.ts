import type { WorkspaceAccess } from '@anchorhold/protocol/sessions'
import { type Command, Option } from 'commander'

export type AccessFlags = { readonly copy?: true; readonly snapshot?: true; readonly acl?: true; readonly chown?: true }

/** The flags by which a command says how its cell comes to a folder: one of them at most. `then` is what becomes of a copy, and of an entry
 *  in an access list. */
export function withAccess(command: Command, then: { readonly copy: string; readonly acl: string }): Command {
  return command
    .addOption(new Option('--copy', `work on a copy of the folder${then.copy}`).conflicts(['snapshot', 'acl', 'chown']))
    .addOption(
      new Option('--snapshot', `work on a copy of the folder without the history of its repository${then.copy}`).conflicts([
        'acl',
        'chown',
      ]),
    )
    .addOption(
      new Option('--acl', `as root: let the cell into the folder by an access list entry, undone ${then.acl}`).conflicts('chown'),
    )
    .option('--chown', 'as root: give the folder to the cell')
}

/** Null where nothing was said. */
export function accessOf({ copy, snapshot, acl, chown }: AccessFlags): WorkspaceAccess | null {
  if (snapshot) return 'snapshot'
  return copy ? 'copy' : acl ? 'acl' : chown ? 'chown' : null
}
