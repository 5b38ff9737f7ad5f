//! What the stage must be able to do with every real agent.

use ostler_rehearsal::log::Played;

use crate::for_every_player;
use crate::player::Player;
use crate::stage::Stage;

const ANY: &str = "[[conversation]]\n[[conversation.step]]\n";

for_every_player! {
    async fn text_is_said(player: Player) {
        let Some(stage) = Stage::with(player, &format!("{ANY}reply = [{{ text = \"Good morning, 世界 🌍!\" }}]")).await
        else { return };
        let (said, _) = stage.play_well("Say good morning", None).await;
        assert_eq!(said, ["Good morning, 世界 🌍!"]);
        stage.strike().await;
    }

    async fn thinking_is_taken(player: Player) {
        let script = format!("{ANY}reply = [{{ thinking = \"Let me see.\" }}, {{ text = \"I see.\" }}]");
        let Some(stage) = Stage::with(player, &script).await else { return };
        let (said, _) = stage.play_well("Think", None).await;
        assert_eq!(said, ["I see."]);
        stage.strike().await;
    }

    async fn a_shell_tool_is_run(player: Player) {
        let script = format!(
            "{ANY}reply = [{{ tool_by_role = \"shell\", command = \"echo $((6 * 7)) > answer.txt; cat answer.txt\" }}]
            [[conversation.step]]
            expect = {{ result_contains = \"42\" }}
            reply = [{{ text = \"It is 42.\" }}]"
        );
        let Some(stage) = Stage::with(player, &script).await else { return };
        let (said, _) = stage.play_well("Work it out", None).await;
        assert_eq!((said, stage.file("answer.txt").as_str()), (vec!["It is 42.".to_owned()], "42\n"));
        stage.strike().await;
    }

    async fn a_file_is_written(player: Player) {
        let script = format!(
            "{ANY}reply = [{{ tool_by_role = \"write_file\", path = \"deep/er/note.txt\", content = \"one\\ntwo 'three'\\n\" }}]
            [[conversation.step]]
            reply = [{{ tool_by_role = \"write_file\", path = \"{{{{workspace}}}}/bare.txt\", content = \"no newline\" }}]
            [[conversation.step]]
            reply = [{{ text = \"Written.\" }}]"
        );
        let Some(stage) = Stage::with(player, &script).await else { return };
        let (said, _) = stage.play_well("Write it down", None).await;
        assert_eq!(said, ["Written."]);
        assert_eq!(stage.file("deep/er/note.txt"), "one\ntwo 'three'\n");
        assert_eq!(stage.file("bare.txt"), "no newline");
        stage.strike().await;
    }

    async fn an_http_error_is_retried(player: Player) {
        let script = format!(
            "{ANY}reply = [
                {{ http = 429, retry_after = 1, times = 1 }},
                {{ http = 500, times = 1 }},
                {{ text = \"At last.\" }},
            ]"
        );
        let Some(stage) = Stage::with(player, &script).await else { return };
        let (said, _) = stage.play_well("Try", None).await;
        assert_eq!(said, ["At last."]);
        let requests = stage.requests();
        let statuses: Vec<_> = requests.iter().map(|entry| entry.status).collect();
        assert_eq!(statuses, [429, 500, 200]);
        let waited = requests[1].ms - requests[0].ms;
        assert!(waited >= 1000, "retry-after was one second, it waited {waited} ms");
        stage.strike().await;
    }

    async fn a_cut_mid_stream_is_survived(player: Player) {
        let script = format!(
            "{ANY}reply = [{{ text = \"Once upon \" }}, {{ cut = \"mid_text\", times = 1 }}, {{ text = \"a time.\" }}]"
        );
        let Some(stage) = Stage::with(player, &script).await else { return };
        let (said, _) = stage.play_well("Tell a story", None).await;
        assert_eq!(said.last().map(String::as_str), Some("Once upon a time."));
        assert_eq!(stage.requests().len(), 2);
        stage.strike().await;
    }

    async fn parallel_tools_come_back_together(player: Player) {
        let script = format!(
            "{ANY}reply = [
                {{ tool_by_role = \"shell\", command = \"echo one > one.txt\" }},
                {{ tool_by_role = \"shell\", command = \"echo two > two.txt\" }},
                {{ tool_by_role = \"shell\", command = \"echo three > three.txt\" }},
            ]
            [[conversation.step]]
            reply = [{{ text = \"All three.\" }}]"
        );
        let Some(stage) = Stage::with(player, &script).await else { return };
        let (said, _) = stage.play_well("Do three things", None).await;
        assert_eq!(said, ["All three."]);
        for name in ["one", "two", "three"] {
            assert_eq!(stage.file(&format!("{name}.txt")), format!("{name}\n"));
        }
        assert_eq!(stage.requests().len(), 2, "one request for the calls, one with all their results");
        stage.strike().await;
    }

    async fn a_session_is_resumed(player: Player) {
        let script = "
            [[conversation]]
            name = \"first\"
            [[conversation.step]]
            expect = { contains = \"remember\" }
            reply = [{ tool_by_role = \"shell\", command = \"echo noted\" }]
            [[conversation.step]]
            reply = [{ text = \"I will remember.\" }]
            [[conversation]]
            name = \"second\"
            [[conversation.step]]
            expect = { contains = \"what\" }
            reply = [{ text = \"You said: a horse.\" }]";
        let Some(stage) = Stage::with(player, script).await else { return };
        let (said, ended) = stage.play_well("Please remember: a horse", None).await;
        assert_eq!(said, ["I will remember."]);
        let session = player.session(&ended).unwrap();
        let (said, ended) = stage.play_well("So what did I say?", Some(&session)).await;
        assert_eq!(said, ["You said: a horse."]);
        assert_eq!(player.session(&ended).unwrap(), session);
        let requests = stage.requests();
        let told: Vec<_> = requests.iter().map(|entry| (entry.session.as_deref(), entry.prompts)).collect();
        let own = Some(session.as_str());
        assert_eq!(told, [(own, 1), (own, 1), (own, 2)], "the model sees the first prompt again");
        stage.strike().await;
    }

    /// A script without an answer is not a hang and not an invented answer: the agent ends and shows what came.
    async fn an_unmatched_prompt_ends_the_turn_with_the_reason(player: Player) {
        let script = "[[conversation]]\n[[conversation.step]]\nexpect = { contains = \"horse\" }\nreply = [{ text = \"x\" }]";
        let Some(stage) = Stage::with(player, script).await else { return };
        let ended = stage.play("Tell me about cows", None).await;
        assert!(!ended.status.success(), "{:?}", ended.records.last());
        let shown = format!("{:?}{}", ended.records, ended.stderr);
        assert!(shown.contains("no conversation expects this prompt"), "{shown}");
        let requests = stage.requests();
        assert!(matches!(requests[..], [ref only] if matches!(only.played, Played::Unmatched { .. })), "{requests:#?}");
        stage.strike().await;
    }
}
