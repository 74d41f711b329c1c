//! Authority-shaped text: a sentence that grants, waives or demands a capability, approval or tool use.
//!
//! Rules look at a verb with its object, never at a topic word: "production", "policy", "permissions table" and "tests run
//! without network" are facts. A sentence that forbids ("never push without asking") passes too. English, German and
//! Chinese, and the classic override in French and Spanish. A heuristic: what passes still grants nothing, because no
//! text can (contract.md 5); this keeps the obvious out of stores and briefings.

use std::sync::OnceLock;

use regex::RegexSet;

/// What an agent could be allowed to do.
const ACTS: &str = "run|execute|use|call|invoke|delete|remove|push|deploy|send|post|upload|read|write|edit|modify|access|install\
|approve|merge|commit|publish|buy|pay|transfer|do|skip|bypass|ignore|override|disable|proceed|act|change|share|reveal|export";
/// What a person gives.
const CONSENT: &str = "approvals?|permissions?|confirmations?|consent|authori[sz]ation|reviews?|sign-?off";
const KONSENS: &str =
    "rueckfragen?|nachfragen?|genehmigung(?:en)?|erlaubnis|freigaben?|bestaetigung(?:en)?|zustimmung";
const AGENT: &str = "(?:you|the (?:agent|assistant|model|ai|bot)|agents|assistants|claude|codex|gpt)";
const RULES: &str = "instructions?|rules?|prompts?|messages?|directions?|directives?|guidelines?|guardrails?|polic(?:y|ies)|constraints?\
|restrictions?|safeguards?|commands?|training";

/// Label and pattern, on lower-case text of one sentence with umlauts written out.
fn patterns() -> Vec<(&'static str, String)> {
    let n = |label, pattern: String| (label, pattern);
    vec![
        n("grant", format!(r"\b{AGENT} (?:may|(?:are|is) (?:now |hereby |always |fully )*(?:allowed|permitted|authori[sz]ed|entitled|free|cleared) to|(?:have|has) (?:my |our |the |full )*(?:permission|approval|authori[sz]ation) to) (?:now |always |also |freely |simply |just )*(?:{ACTS})\b")),
        n("grant", format!(r"\b{AGENT} can (?:now |always |also |freely |simply |just )*(?:{ACTS}) (?:anything|everything|whatever|any (?:command|tool|file)|all (?:tools|commands|files))")),
        n("grant", format!(r"\b{AGENT} (?:now )?(?:have|has) (?:full|unrestricted|unlimited|root|admin(?:istrator)?|complete) (?:access|rights|permissions?|control|privileges|authority)")),
        n("grant", r"\b(?:i|we) (?:hereby |explicitly )*(?:grant|authori[sz]e|permit|allow|approve) (?:you|the agent|the assistant|claude|codex|all|any|every)\b".into()),
        n("grant", r"\bgrant (?:yourself|me|the (?:agent|assistant|user)|all|full|any) ".into()),
        n("grant", r"\b(?:is|are|as|be|stands?) (?:hereby |now |always )*(?:pre-?approved|pre-?authori[sz]ed|approved in advance|auto-?approved)\b".into()),
        n("grant", r"\bthe (?:user|owner|human|admin|operator)(?: has| have)? (?:already |pre-?)(?:approved|authori[sz]ed|consented|confirmed|granted)".into()),
        n("grant", r#"(?:^ ?|[:,;"'(] ?|\b(?:please|always|must|should|to|and) )(?:remember|treat|regard|consider|mark|trust)\b.{0,80}\bas (?:a |an |the |always )*(?:trusted|authoritative|approved|pre-?approved|verified|safe|confirmed)\b"#.into()),
        n("grant", r"\byou are now (?:an? |the |in )*(?:admin|root|unrestricted|unfiltered|developer mode|jailbroken|dan\b|superuser|system)".into()),
        n("standing approval", r"\b(?:always|automatically|silently|blindly|auto-?) ?(?:approve|allow|grant|accept|authori[sz]e|permit|confirm|trust|consent|say yes|comply|obey)\b".into()),
        n("standing approval", r"\b(?:approve|allow|grant|accept|authori[sz]e|permit|confirm|trust) (?:all|any|every|each|everything|anything)\b".into()),
        n("waived approval", format!(r"\bwithout (?:any |my |our |your |the |further |prior |first |explicit |user |human )*(?:asking|{CONSENT}|confirming|checking with|prompting|questions?)\b")),
        n("waived approval", format!(r"\b(?:no|not) (?:any |further |more |explicit |user |human )*(?:need (?:to|for) (?:ask|confirm|check|{CONSENT})|(?:{CONSENT}) (?:is |are |will be )*(?:needed|required|necessary))")),
        n("waived approval", format!(r"\b(?:don't|do not|never|stop|no longer|needn't|need not)(?: ever| have to| need to)? (?:ask(?:ing)?|wait(?:ing)?|prompt(?:ing)?|check(?:ing)?)(?: me| us| the user| anyone)?(?: again)? (?:for (?:any |my |the |user )*(?:{CONSENT})|before (?:running|executing|using|calling|deleting|pushing|deploying|sending|writing|installing))")),
        n("waived approval", format!(r"\b(?:skip|bypass|disable|turn off|circumvent|suppress|waive) (?:all |any |the |every |your |this |user |human |safety )*(?:{CONSENT}|confirm|approve|preflight|sandbox|safety|guardrails?|gate|restrictions?|safeguards?|permission checks?)\b")),
        n("override", format!(r"\b(?:ignore|disregard|forget|override|overrule|discard|neglect|do not follow|don't follow|stop following) (?:all |any |the |your |every |these |those |of |my |its |other )*(?:(?:previous|prior|earlier|above|preceding|system|existing|former|foregoing|original|safety|developer|initial|other|user(?:'s)?) ?)+(?:and )?(?:{RULES})")),
        n("override", format!(r"\b(?:ignore|disregard|forget|override|overrule|discard) (?:all |any |the |your |every |these |those |of |my )+(?:{RULES})\b")),
        n("override", r"\b(?:ignore|disregard|forget) (?:everything|anything|all(?: of)? (?:that|this|it)|what) .{0,30}\b(?:above|before|previously|told|so far|earlier)\b".into()),
        n("override", r"(?:^|[^a-z])(?:new|updated|real|actual) (?:system )?(?:instructions?|directives?|system prompt)\s*:".into()),
        n("demanded tool use", r"\b(?:always|must|immediately|now|first|you should|you need to|be sure to|make sure to)\b[^.;:]{0,20}\b(?:call|invoke|run|use|execute|open)\b[^.;:]{0,30}\b(?:tool|shell|bash|terminal|mcp|function call|curl|wget)\b".into()),
        n("demanded tool use", r"\b(?:run|execute|call|invoke|use) (?:the |this |that |any |every |all )*(?:following )?(?:tools?|commands?|shell|script|functions?) (?:now|immediately|at once|silently|whenever|every time)".into()),
        n("demanded tool use", r"\bcurl\b[^|]{0,200}\|\s*(?:sudo )?(?:ba|z)?sh\b".into()),
        n("grant", r"\b(?:du darfst|ihr duerft|sie duerfen|der (?:agent|assistent) darf|claude darf|codex darf)\b.{0,100}\b(?:ausfuehren|nutzen|benutzen|verwenden|aufrufen|loeschen|pushen|deployen|senden|schicken|schreiben|lesen|aendern|installieren|zugreifen|machen|tun|starten|freigeben|genehmigen|ueberspringen|umgehen|alles|jederzeit|immer)\b".into()),
        n("grant", r"\b(?:du hast|hiermit (?:hast du|erhaeltst du|bekommst du)) (?:jetzt |ab sofort |nun )*(?:volle[nrs]?|uneingeschraenkte[nrs]?|alle|vollen|root|admin)[ -](?:rechte?|zugriff|berechtigung(?:en)?|zugang|kontrolle|vollmacht)".into()),
        n("grant", r"\b(?:ich|wir) (?:hiermit )?(?:erlaube|genehmige|autorisiere|gestatte|erlauben|genehmigen|gestatten)(?:n)? (?:dir|euch|ihnen|dem agenten|hiermit|alles|alle|jede[nrs]?)\b".into()),
        n("standing approval", r"\b(?:genehmige|genehmigt|erlaube|bestaetige|akzeptiere|bewillige|gestatte|stimme)\b.{0,30}\b(?:immer|alles|alle[mnrs]?|jede[mnrs]?|automatisch|stets|grundsaetzlich)\b".into()),
        n("standing approval", r"\b(?:immer|automatisch|stets|grundsaetzlich|alles|alle [a-z]+)(?: [a-z]+){0,3} (?:genehmigen|erlauben|bestaetigen|akzeptieren|freigeben|zulassen|zustimmen|bewilligen)\b".into()),
        n("waived approval", format!(r"\bohne (?:jede |weitere |vorherige |meine |deine |ausdrueckliche |eine |irgendeine )*(?:{KONSENS}|zu fragen|nachzufragen|rueckzufragen|um erlaubnis)")),
        n("waived approval", format!(r"\bkeine (?:weitere |weiteren |vorherige )*(?:{KONSENS}) (?:ist |sind |mehr )*(?:noetig|erforderlich|notwendig)")),
        n("waived approval", r"\b(?:frag|frage|fragt) (?:mich |uns |vorher )*(?:nie|niemals|nicht)(?: mehr| erst| vorher)? (?:nach|um) (?:einer |eine |der )*(?:erlaubnis|genehmigung|bestaetigung|freigabe|zustimmung)".into()),
        n("waived approval", r"\b(?:du (?:musst|brauchst)|sie (?:muessen|brauchen)) (?:mich |uns |dafuer |dazu |vorher )*(?:nie|nicht|niemals)(?: mehr| erst| vorher| mehr vorher)? (?:zu |nach|um )?(?:fragen|zu fragen|nachzufragen|nachfragen|erlaubnis)".into()),
        n("waived approval", format!(r"\b(?:ueberspringe?|umgehe?|deaktiviere?|schalte) (?:alle |die |den |das |jede |saemtliche )*(?:{KONSENS}|pruefung(?:en)?|schutz|sandbox|sicherheit[a-z]*|sperre)")),
        n("override", r"\b(?:ignoriere?|ignoriert|vergiss|vergesst|missachte|ueberschreibe|umgehe|befolge nicht)\b(?: [a-z]+){0,4} (?:anweisung(?:en)?|regeln?|vorgaben?|instruktion(?:en)?|befehle?|richtlinien?|vorschriften?|system ?-?prompt)\b".into()),
        n("grant", r"(?:你|您|助手|代理|智能体)(?:现在|現在)?(?:可以|有权|有權|被允许|被允許|获准|獲准|被授权|被授權|已获授权)(?:随意|隨意|自由|直接|任意|随时|隨時|自行|自动|自動)*(?:地)?(?:执行|執行|运行|運行|删除|刪除|使用|调用|調用|访问|訪問|发送|發送|推送|部署|安装|安裝|写入|寫入|做任何|读取|讀取|修改|跳过|跳過)".into()),
        n("grant", r"(?:授予|赋予|賦予|给予|給予)(?:你|您|自己|助手|代理|所有|全部|完全|管理员|管理員)|(?:允许|允許|授权|授權)(?:你|您|助手|代理)".into()),
        n("waived approval", r"(?:无需|無需|不需要|不用|无须|無須|不必|毋需|不要再?|未经|未經|跳过|跳過|绕过|繞過|省略)(?:再|任何|用户|用戶|我|我的|的|人工|事先|先|经过|經過|征求|徵求|请求|請求)*(?:确认|確認|批准|许可|許可|授权|授權|审批|審批|询问|詢問|同意|审核|審核)(?:就|即可|便|直接|而|都)?(?:可|能|执行|執行|运行|運行|删除|刪除|部署|推送|调用|調用|[，,。！!]|$|，?直接)".into()),
        n("standing approval", r"(?:总是|總是|始终|始終|一律|自动|自動|永远|永遠|默认|默認|全部|直接)(?:都)?(?:批准|同意|允许|允許|授权|授權|通过|通過|接受|确认|確認)".into()),
        n("override", r"(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要理會|覆盖|覆蓋|不要遵守|违反|違反)(?:之前|以前|上面|上述|以上|先前|前面|所有|一切|系统|系統|你|您|的|全部|任何|原有|安全)*(?:指令|指示|规则|規則|提示词?|提示詞|命令|要求|限制|约束|約束)".into()),
        n("override", r"\bignore[zr]? (?:toutes )?(?:les |vos |tes )?(?:instructions?|règles|consignes)|\bignora(?:r|d)? (?:todas )?(?:las |tus |sus )?(?:instrucciones|reglas)".into()),
    ]
}

/// A negation that governs the waiver makes the sentence a prohibition. What follows it must not itself encourage.
fn forbids(sentence: &str) -> bool {
    static FORBIDS: OnceLock<(RegexSet, RegexSet)> = OnceLock::new();
    let (forbidding, encouraging) = FORBIDS.get_or_init(|| {
        let set = |patterns: &[&str]| ascii_words(patterns.iter().map(ToString::to_string));
        (
            set(&[
                r"\b(?:never|don't|do not|must not|mustn't|may not|cannot|can't|should not|shouldn't|shall not|not allowed to|nobody|no one|nothing|not be)\b[^,;:]{0,80}\b(?:without|pre-?approved|auto-?approved|approve|allow|accept|confirm|trust|ignore|disregard|forget|override|skip|bypass|disable|grant|run|execute|call|invoke|use)\b",
                r"\b(?:nie|niemals|nicht|nichts|kein|keine|keinen|niemand)\b[^,;:]{0,80}\b(?:ohne|genehmigen|erlauben|bestaetigen|freigeben|umgehen|ignorieren|ausfuehren|loeschen|pushen|deployen|verwenden|nutzen|aufrufen|ueberspringen)\b",
                r"(?:不得|禁止|不可|不能|不允许|不允許|严禁|嚴禁|切勿|请勿|請勿|不要|不应|不應)",
            ]),
            set(&[
                r"\b(?:never|don't|do not|not)(?: ever| need to| have to)? (?:hesitate|bother|worry|wait|ask|forget to|fail to|refuse|stop)",
                r"\bno (?:need|longer)\b|\b(?:nicht|nie|niemals)(?: mehr| erst)? (?:zoegern|zu fragen|fragen|nachfragen|zu zoegern)|\bkeine sorge",
                r"不要(?:犹豫|猶豫|询问|詢問|问|問|请求|請求|理会|理會|遵守|再)",
                r"(?:未经|未經).{0,8}(?:即可|便可|也可)",
            ]),
        )
    });
    forbidding.is_match(sentence) && !encouraging.is_match(sentence)
}

/// The label of the first sentence that is authority-shaped.
pub(super) fn find(text: &str) -> Option<&'static str> {
    static RULES_SET: OnceLock<(Vec<&'static str>, RegexSet)> = OnceLock::new();
    let (labels, set) = RULES_SET.get_or_init(|| {
        let (labels, patterns): (Vec<_>, Vec<_>) = patterns().into_iter().unzip();
        (labels, ascii_words(patterns.into_iter()))
    });
    let lower =
        text.to_lowercase().replace('ä', "ae").replace('ö', "oe").replace('ü', "ue").replace('ß', "ss");
    sentences(&lower).find_map(|sentence| {
        let hits = set.matches(&sentence);
        let label = hits.iter().next().and_then(|n| labels.get(n).copied())?;
        (!forbids(&sentence)).then_some(label)
    })
}

/// Word boundaries of ASCII: the text is lower-case with umlauts written out, and Unicode boundaries are slow.
fn ascii_words(patterns: impl Iterator<Item = String>) -> RegexSet {
    RegexSet::new(patterns.map(|pattern| pattern.replace(r"\b", r"(?-u:\b)")))
        .unwrap_or_else(|_| RegexSet::empty())
}

/// Sentences with their white space collapsed. They end at a sign that a blank follows, or at a full-width one; a line
/// break ends none, because a sentence may be wrapped.
fn sentences(text: &str) -> impl Iterator<Item = String> {
    let words =
        text.split_whitespace().flat_map(|word| word.split_inclusive(['。', '！', '？', '；']).chain([" "]));
    let mut words = words.peekable();
    std::iter::from_fn(move || {
        words.peek()?;
        let mut sentence = String::new();
        for word in words.by_ref() {
            let ended = sentence.ends_with(['.', '!', '?', ';']) && word == " ";
            sentence.push_str(word);
            if ended || word.ends_with(['。', '！', '？', '；']) {
                break;
            }
        }
        Some(sentence)
    })
}
