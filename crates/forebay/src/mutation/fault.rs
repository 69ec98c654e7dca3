//! The faults.

/// A rule of the protocol left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A transaction gives up its read locks before it takes its write locks.
    ReadLockReleasedEarly,
    /// The cache is updated before the store commits.
    CacheBeforeStore,
    /// A read that a commit has overtaken fills the cache.
    OvertakenFill,
    /// What began before the store lost groups may commit after it.
    VersionFenceOff,
    /// The table of applied ids is not consulted: asked again, a commit is new.
    AppliedIdsIgnored,
    /// A lock is passed on without the pending result beside it.
    LockWithoutResult,
    /// A group is published one key after the other.
    PublishedKeyByKey,
    /// A group's keys are unmarked before its last install.
    UnmarkedEarly,
    /// A fill begins while its key is held by a commit on its way.
    FillWhileHeld,
    /// Whoever waits for its turn to hold many documents has fills open, which the one whose turn it is may wait for.
    TurnAwaitedWithFills,
    /// A fill begins beside what is cached.
    FillBesideEntry,
    /// What is read again at a warm start is put in under a fill that was begun when it had been read.
    ResumedByLateFill,
    /// It is put in without a lock.
    ResumedUnlocked,
    /// It stands behind what clients have read since the start.
    ResumedAsNew,
    /// What is cached may be older than what WATCH remembers.
    WatchedUnshown,
    /// EXEC commits although the LEASE CHECK before it was refused.
    RefusedCheckCommits,
    /// As of when a leased document holds is asked after it was read.
    LeaseTakenLate,
    /// What is leased holds as of the last version that was minted, published or not.
    LeaseAheadOfPlaced,
    /// It holds as of a clearing that is not over.
    LeaseForgetsClearing,
    /// What is absent since it has expired is so as of a version, at which it may have been there.
    ExpiredAsOfVersion,
    /// A key is not tracked any more after a write of its own reader with NOLOOP.
    OwnWriteUntracks,
    /// All stores in memory are of one incarnation, though none knows what an earlier one held.
    LivesAlike,
    /// A client that has a leased document is told so although it has expired since.
    HaveIgnoresExpiry,
    /// Caches elsewhere are told of a change before it is visible here.
    ToldBeforePublication,
    /// What a client is to be told of changed keys is encoded although it does not read.
    PushedUnread,
    /// A client that wants to be told of changes of a key is noted after it has read it.
    NotedAfterRead,
    /// It holds as of a commit that is done at once, and under way.
    LeaseOverlooksAtOnce,
    /// In an outage a document that was read, and then written for that, is merged with what others have written to it.
    ToldMerged,
    /// A pipelined read is served without locks although a commit of its connection is not published.
    PipelinedReadOvertakes,
    /// What a wide request takes while it runs is not counted.
    UnderwayUncounted,
    /// What short requests have in the room that is theirs is not counted.
    ShortUncounted,
    /// What an unfinished request may take without room is as much beside a thousand clients as beside ten.
    ManyWithoutRoom,
    /// A client's complete requests are read on while others of it wait to be decoded.
    ReadBeforeDecoded,
    /// Beside many clients as much is read of each pipeline as beside few.
    ManyReadAhead,
    /// An EXEC that is refused since its client has gone leaves its MULTI open.
    RefusedExecStays,
    /// The answers of scripts have no room while they wait to be encoded.
    ScriptAnswersUncounted,
    /// What scripts hold takes no room.
    ScriptsUncounted,
    /// What is left of replies keeps the memory of 256 KiB that were written.
    WrittenKept,
    /// Beside many clients a turn is as long as beside few.
    ManyLongTurns,
    /// A wide request waits for room although its client has gone.
    RoomOutlivesClient,
    /// A key that turns out to be absent is not kept locked.
    AbsentNotLocked,
    /// An aborted transaction leaves its buffered writes to be committed.
    AbortLeavesWrites,
    /// A transaction reads what was there before its own writes.
    OwnWritesHidden,
    /// The store acknowledges a group before the flush that makes it durable.
    AcknowledgedBeforeFsync,
    /// A lock is passed on before the commit has its place in the queue.
    LockBeforePlace,
    /// A commit that gets no place leaves its results beside its locks, and its keys held.
    RefusedLeavesResults,
    /// A commit on its way ends with the connection that waits for it.
    CommitDiesWithConnection,
    /// A removal, a clearing or an invalidation leaves the open fills of its keys open.
    FillSurvivesInvalidation,
    /// A read without locks does not look at its keys again.
    SecondLookSkipped,
    /// EXEC runs although a watched key has changed.
    WatchIgnored,
    /// A commit is applied although one that it has read from failed.
    OrphanCommitted,
    /// A group that the store has lost since it answered is published as if it were there.
    LostGroupPublished,
    /// A command that reads many keys in slices answers after the first round.
    WideReadOnce,
    /// A commit that failed does not give its room back.
    RoomKeptByFailed,
    /// A small commit waits for room in one line with wide ones.
    RoomInOneLine,
    /// Rows of a wide commit go in together although rows of others stand between them.
    RunsOverOthers,
    /// As many wide commits are placed as there are bytes for.
    WideTogether,
    /// A reply that shows a pending result does not wait for its publication.
    PendingShown,
    /// What is applied of a document's queue takes all of the queue with it (hole 1 of the paper's protocol).
    QueueTrimmedWhole,
    /// What is buffered while a lane's work is on its way does not enter the lane (holes 2 and 3).
    LaneForgotten,
    /// What the journal brings back is sent under another id than before (hole 4).
    RestoredUnderNewId,
    /// A commit that the store did not answer is buffered under another id than it was sent (hole 5).
    AmbiguousUnderNewId,
    /// A buffered transaction over several lanes goes when it heads one of them.
    LanesIgnored,
    /// A write goes straight to the store although others wait for it in its lane.
    WritesOvertakeDrain,
    /// A buffered write is acknowledged before the journal has it.
    AcknowledgedBeforeJournal,
    /// A read while writes are pending finds what the store has.
    ReadsUnmerged,
    /// Documents whose buffered writes were applied are written directly before the journal says that they were.
    AppliedNotNoted,
    /// Likewise where the journal has no room for saying it.
    UnnotedForgotten,
    /// What the journal has no room to note holds up its lanes and workers.
    UnnotedStopsDrain,
    /// What the journal is still to be told of documents names those that are applied, too.
    AppliedLearned,
    /// A start that does not reach the store gives out the ids of an earlier such start again.
    IdsOfEarlierStart,
    /// What has no room to be noted holds up all that waits with it.
    UnnotedTogether,
    /// Long notes take the journal's room for short ones.
    NotesRoomTaken,
    /// What found no room in the journal stays there.
    RefusedForRoomKept,
    /// A journal that was cut at its end is taken for whole.
    CutUnnoticed,
    /// What is buffered is applied to a store that was restored from a backup.
    RestoredStoreDrained,
    /// What is buffered is applied to a store that another owner had since.
    OwnerNotLookedAt,
    /// What an operator decides to apply while nothing is applied goes before what waits for its documents.
    AppliedOutOfTurn,
    /// What an operator has decided to apply is not in the journal when he is told so.
    OrderForgotten,
    /// An operator is told that what waits is applied before the journal knows of it.
    ResumeForgotten,
    /// What is answered as not applied, since another owner has the store by then, stays in the journal.
    RefusedStaysKept,
    /// The store is asked what became of what is kept for an operator, and so is told never to apply it.
    KeptDenied,
    /// An owner that has lost its store to another goes on taking writes.
    FencedOwnerWrites,
    /// A start that did not reach its database, and then finds another owner there, goes on as if it were away.
    TakenTakenForAway,
    /// A document is overwritten as it was computed, in place of being changed (hole 8).
    WholeDocumentDrained,
    /// What the store refuses is sent again instead of being set aside (hole 16).
    PoisonRetried,
    /// With write-back nobody is held up for the drain, which begins when the oldest is due or half of the room is
    /// taken, and a write that finds no room is told so at once.
    WriteBackUnpaced,
    /// Behind an outage others take the room that a write waits for.
    RoomPassed,
    /// Behind an outage others wait for room as long as the write does that came first.
    RoomKept,
    /// A write that waits for room is not told when there is some.
    RoomForgotten,
    /// What was sent without an answer is given up without a tombstone for its id.
    DroppedWithoutTombstone,
    /// What is cached in an outage is not compared with the store behind it.
    DoubtfulKept,
    /// A client that asks for what others have written is answered before what commits of ours made of it has left the
    /// cache.
    SyncedTooEarly,
    /// What is cached of tables that nothing watches is believed as long as it is cached.
    UnwatchedBelieved,
    /// What is cached of tables that nothing watches stays when somebody asks for what others have written.
    UnwatchedKept,
    /// A client that asks what became of a commit is told that it was not applied, and it may be applied later.
    OutcomeWithoutTombstone,
    /// An id is forgotten when others have come, though its commit may be sent again.
    IdsTrimmedByAge,
    /// A read merges all that waits for a document with what the store holds, be it applied or not.
    QueueMergedWhole,
    /// What becomes one buffered transaction is not asked of the form of its document: a row that is deleted and made
    /// again is to be put as a whole.
    MergedUntaken,
    /// Of a document of which only changes are known the store is asked what it holds, not which of them are in it.
    LearnedUnasked,
    /// What was read of a document for which changes wait is not compared with what becomes of it.
    PendingReadsUnchecked,
    /// A sync leaves what waits for the store of tables that nothing watches as it was shown.
    PendingUnsynced,
    /// What has become part of another write counts as gone: what the store said meanwhile is not believed.
    MergedForGone,
    /// A client is shown what others may have changed while changes to it move.
    ShownWhileMoving,
    /// The answer to what was applied takes the place of what the store has said since.
    AnswerOutlivesNews,
    /// What was made to a copy that was dropped since is shown as it was computed.
    OldCopyBelieved,
    /// A row that is to be made is shown without what the store fills by itself.
    DefaultsGuessed,
    /// Behind a deletion whose answer was lost, what was read counts as changed by others: no row is left that tells.
    DeletionDoubted,
    /// What was read counts as changed by others when the store has its row under another version, whatever it is.
    RereadDoubted,
    /// A write that is refused where the one before it is not becomes one transaction with that.
    MergedUnfit,
    /// In a transaction the documents of a row are as they were after another one of it has deleted the row.
    BesideUnmoved,
    /// The journal is not told what one is made to that takes another's place.
    MergedOnNothing,
    /// A start takes nothing of what the journal brings back as checked when it was sent.
    ProvenForgotten,
    /// What is sent unchecked is not noted before.
    UncheckedUnnoted,
    /// What becomes known of a document after its transaction was sent is noted as if that had been checked.
    KnownAsChecked,
    /// What the store is asked for before it is heard what it has applied makes that count as applied to anything.
    AskedOnTheWayDoubted,
    /// A reply that has become longer while it waited for room keeps the room that it had, and waits for more.
    ForgottenKeepsRoom,
    /// A client that reads none of its replies is not idle while its transaction waits for that.
    UnreadIsBusy,
    /// A script that is undone leaves the database that its SELECT has chosen.
    UndoneSelectStays,
    /// EXEC runs again during a CLIENT PAUSE that began while it waited for room.
    PauseForgotten,
    /// A client that sends a part of a large request and no more has room before those whose requests are there.
    StalledKeepRoom,
    /// Clients that read no reply, or slowly, keep the room of replies from those that came later, one after the other.
    StalledGoFirst,
    /// What an idle client is told is checked against the rights that it had at its last request.
    ToldByOldRights,
    /// COMMAND GETKEYS shows the passwords of the command that it asks about.
    AskedAboutShown,
    /// The names of steps that a client makes up are taken for good.
    StepsUsedUp,
    /// The last replies of a connection wait for five seconds, though its client reads them.
    EndedCutShort,
    /// A request that waited for room runs again although its user has lost the right to it.
    RightKeptInWait,
    /// A start takes all that the journal brings back for sent, and does not ask the store.
    RestoredTakenForSent,
    /// A start takes what the store has of that for not sent.
    AppliedTakenForUnsent,
    /// A transaction that was overtaken takes what is known of its documents from those that come after it.
    OvertakenForgets,
    /// The journal is not told which of the documents that a transaction was shown the store has.
    SettledUnnoted,
    /// A change goes to the store in one batch behind one that the store may have, unchecked.
    SentBehindSent,
    /// When a write to one document of a row is applied, what was read of the row's others counts as changed by others.
    MovedByOurselves,
    /// A transaction has the version checked under which it read a document, though a write to another document of the
    /// row waits before it, and will move that version on.
    CheckedBeforeMove,
    /// What is cached of a document gets the version that its write has left, though a write to another document of the
    /// row has moved that on in the same batch.
    RestampedBeforeMove,
    /// What is cached of a document gets the version that its write has left, though a write to another document of the
    /// row waits, and will move that on.
    CachedBeforeMove,
    /// A document that was deleted stays so while what waits behind that makes its row again.
    MadeBesideUnseen,
    /// A version that was noted before a kill is believed, although another document of its row has moved it on since.
    NotedVersionKept,
    /// The first that waits for a document counts as made to what the store holds, although another document's write,
    /// which waits for an operator before it, will make or delete their row.
    MadeToBeforeMove,
    /// A deletion that is merged with what makes the row again takes no other document along.
    TakenAlongUnmerged,
    /// A document that was deleted stays so when what waits for it then only unsets fields of a row that another made.
    UnsetTakenForGone,
    /// A list that was pushed to and is deleted, in one merge, is only deleted: the row that the push made is missing.
    EmptiedListUnmade,
    /// A list that is deleted takes the other documents of its row along.
    ListTakesRowAlong,
    /// Each document is applied by itself, whatever joins it with others.
    DrainedByDocument,
    /// What was acknowledged and cannot be read yet is shown by a flush, for which its readers wait.
    ShownByFlushing,
    /// A store that closes its file says that nothing is hidden while readers still find the file.
    NothingHiddenTooEarly,
    /// A read that fails closes the file with what was acknowledged and not shown.
    FailedReadLosesHidden,
    /// Commits that wait behind one that panics are told nothing.
    UntoldBehindPanic,
    /// Paused clients are served all the same.
    PauseIgnored,
    /// A request that waits out a pause is served when its client is killed.
    KilledInPauseServed,
    /// A killed client waits out its pause.
    KillWaitsForPause,
    /// The end of a pause wakes nobody.
    UnpauseWakesNobody,
    /// A transaction that was rolled back for others goes on, and may commit.
    WoundedGoesOn,
    /// What is done at once does not look whether its key space is being cleared.
    ElisionBesideClearing,
    /// An upgrade stands behind all that wait for the key.
    UpgradeAtTail,
    /// The reaper removes what was expired when it looked, whatever it is now.
    ReapedUnseen,
    /// That a watched document has expired counts as no change.
    WatchIgnoresExpiry,
    /// The results beside the locks go when the store is asked, before they are published.
    PendingDroppedEarly,
    /// The second look at a key takes what was published since for what the first one saw.
    WrongSequence,
    /// A look at what is absent takes its version from after what it saw of the documents.
    AbsenceOvertakes,
    /// A buffered transaction that the store gives up for another one is tried without end.
    GivenUpIsOvertaken,
    /// Whether the budget has room is asked first, and the bytes are charged later: two partitions take the last room.
    RoomTakenTwice,
    /// Hits that wait are told to the policy when there is no room for more, not before it chooses victims.
    VictimsBeforeHits,
    /// A hit that has waited is told of the entry that its slot has by then.
    HeardOfAnother,
    /// A policy that learns from each hit is not told of those for which there was no room.
    HitsLeftOut,
    /// Hits that wait are told thread by thread, in whatever order a client was in these.
    ClientsOutOfTurn,
    /// Names are hashed as everybody can hash them.
    KnownHash,
    /// Up to where a document is fresh is asked for when its reply has come, not before the request is sent.
    FreshWhenRead,
    /// Validators are told of a commit before its writes are in the shards.
    SettledAtDecision,
    /// What a validator knows as the last read of a key is the read that came last.
    LatestReadAssigned,
    /// Where clients tell each other what is complete, those that are silent are not waited for, and may still write.
    SilentDropped,
    /// A validator takes what it has forgotten for what never was.
    FreshnessUnchecked,
    /// A validator that begins again counts on nothing having been promised.
    NoFloor,
    /// It is not told what is staged.
    StagedNotReloaded,
    /// Shards stage writes that count on an epoch which has ended.
    StagedUnfenced,
    /// A transaction commits by votes of an epoch that has ended.
    OldVotesCommit,
    /// A validator votes on stamps above what its keeper knows as promised.
    AboveCeiling,
    /// A validator takes writes where it has promised that none will come.
    WritesIntoClosed,
    /// It does not compare writes with the last read of their keys.
    ReadsUnguarded,
    /// It forgets reads of moments at which writes may still come.
    ReadsForgotten,
    /// It does not see what transactions under way mean to write.
    PreparedUnseen,
    /// It decides by itself that a transaction without news is over.
    GivenUpAlone,
    /// It takes a transaction that it has asked after for applied when it hears that it has committed.
    SettledUnapplied,
    /// The home of a transaction forgets that it was aborted, and lets it commit.
    AbortForgotten,
    /// The home of a transaction decides what it is asked last.
    DecidedTwice,
    /// The application is told of a commit before it is decided.
    AnsweredUndecided,
    /// A client that starts again uses its names a second time.
    NamesReused,
    /// An older write that comes late takes the place of a later one.
    OlderOverNewer,
    /// A read-only transaction commits without a message whatever its copies are.
    LocalUnchecked,
    /// What a read-only transaction has read counts as validated though it is fresh only up to an earlier moment.
    ValidatedBelow,
    /// A session does not remember its own commits that write.
    SessionForgetsWrites,
    /// A session does not remember its own commits that only read.
    SessionForgetsReads,
    /// A transaction that was not to be committed renews what it has read.
    RenewedByFailure,
    /// What was named as stale stays in use.
    StaleKept,
    /// What waits for a store that was found in another state is shown as it was before.
    FoundTakenForKnown,
    /// Likewise after a start, once an operator has decided.
    ResumedTakenForKnown,
    /// What was read of the store as it was is written to it as it was found.
    WrittenToAnotherState,
    /// What waits for a store that was found in another state keeps the versions under which it was shown.
    VersionKeptForAnotherState,
    /// What is committed later than it gets a lower version than what waits for a store found in another state.
    MintedBelowRenamed,
    /// What was cached of the store as it was stays when it is found in another state.
    CachedOfAnotherState,
    /// What others were said to have changed is shown while the store can't be asked.
    DoubtedShownAway,
    /// A validator does not say of which keys a write is under way.
    HeldUnlisted,
    /// The age of copies is not compared with what was asked for.
    AgeIgnored,
    /// What a strict transaction has read is looked at once, and not held until it is decided.
    StrictUnheld,
    /// Shadows miss some accesses, and nothing says so.
    ShadowsMissAccesses,
    /// Shadows do not hear of keys that leave the cache because they have changed elsewhere.
    ShadowsKeepGone,
    /// What a full queue has left out is not counted, and its transactions pass for whole.
    ShadowsTornUnsaid,
}
