use super::*;

#[test]
fn an_ingress_must_stay_ready_through_what_does_not_concern_it() {
    let mut state = State::new(vec![Who::Ingress(0), Who::Ingress(1), Who::Projector(0)]);
    state.broke(Breakage::DatabaseKilled);
    state.broke(Breakage::Link(Who::Ingress(1), Side::Broker, Ill::Slow));
    state.mended(Breakage::DatabaseKilled);
    assert_eq!(
        state.must_have_been_ready().collect::<Vec<_>>(),
        [Who::Ingress(0)]
    );
    state.broke(Breakage::BrokerKilled);
    state.mended(Breakage::BrokerKilled);
    assert_eq!(state.must_have_been_ready().count(), 0);
    state.settled();
    assert_eq!(state.must_have_been_ready().count(), 2);
}

#[test]
fn everything_is_mended_in_the_end_servers_first() {
    let mut state = State::new(vec![Who::Ingress(0)]);
    for breakage in [
        Breakage::Killed(Who::Ingress(0)),
        Breakage::StreamFull,
        Breakage::BrokerKilled,
    ] {
        state.broke(breakage);
    }
    let mut order = Vec::new();
    while let Some(breakage) = state.to_mend() {
        state.mended(breakage);
        order.push(breakage);
    }
    assert_eq!(
        order,
        [
            Breakage::BrokerKilled,
            Breakage::StreamFull,
            Breakage::Killed(Who::Ingress(0))
        ]
    );
}

#[test]
fn what_is_broken_decides_what_programs_must_say() {
    let (ingress, projector, reconciler) = (Who::Ingress(0), Who::Projector(0), Who::Reconciler(0));
    let truths = |broken: &[Breakage]| {
        let mut state = State::new(vec![ingress, projector, reconciler]);
        broken.iter().for_each(|breakage| state.broke(*breakage));
        [ingress, projector, reconciler].map(|who| state.truth(who))
    };
    use Truth::{NotReady, Open, Ready, Silent};
    assert_eq!(truths(&[]), [Ready, Ready, Ready]);
    assert_eq!(truths(&[Breakage::BrokerFrozen]), [NotReady, NotReady, NotReady]);
    assert_eq!(truths(&[Breakage::ReadOnly]), [Ready, NotReady, NotReady]);
    assert_eq!(truths(&[Breakage::StreamFull]), [NotReady, Ready, NotReady]);
    assert_eq!(truths(&[Breakage::DiskFull]), [NotReady, Open, Open]);
    assert_eq!(truths(&[Breakage::Killed(projector)]), [Ready, Silent, Ready]);
    assert_eq!(truths(&[Breakage::ApiAway]), [Ready, Ready, Open]);
    let slow = Breakage::Link(ingress, Side::Broker, Ill::Slow);
    assert_eq!(truths(&[slow]), [Open, Ready, Ready]);
    let hook = Breakage::Link(ingress, Side::Hook, Ill::Mute);
    assert_eq!(truths(&[hook]), [Ready, Ready, Ready]);
}
